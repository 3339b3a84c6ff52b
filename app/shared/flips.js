const shade = () => getComputedStyle(document.querySelector('[data-testid="stApp"]')).backgroundColor;
export default function ({ setTriggerValue }) {
  let was = shade();
  const watch = new MutationObserver(() => {
    const now = shade();
    if (now !== was) setTriggerValue("flipped", (was = now));
  });
  watch.observe(document.querySelector('[data-testid="stApp"]'), { attributeFilter: ["class"] });
  return () => watch.disconnect();
}
