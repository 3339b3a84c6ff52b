"""Where should this network be cut, and what may run beside the packets?"""
