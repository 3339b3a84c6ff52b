"""Many-core inference cards: matrix and vector units, SRAM in each core, a shared cache, LPDDR."""
