"""Questions about one machine or node: where its time goes, where to cut a network, what to fuse."""
