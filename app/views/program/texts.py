"""The Program page's texts; the page puts values where braces are."""

# page.py
PROGRAM_HELP = "the program that this price rests on, or yours: any change is timed and checked"
SHIPPED_PROGRAM = "Back to the shipped program"
SYNTAX_CAPTION = "A semicolon starts a comment; `loop N` to `end` repeats lines."
LISTING_ANSWER = "{count} instructions, {waits} of them wait for another"
LISTING = "{said}; cycles from the start"
REGISTERS_ANSWER = "before and after instruction {number}"
RUN_NUMBERS_HELP = "Random inputs and weights, in the machine's arithmetic."
STEP_HELP = "One instruction at a time."
