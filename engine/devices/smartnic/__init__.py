"""Network processors whose spare threads run binary layers beside the packet path."""
