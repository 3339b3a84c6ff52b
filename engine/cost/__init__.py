"""Times, power and money of a plan, the figures of a report and how far to trust them."""
