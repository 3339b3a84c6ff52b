"""Where does each number come from?"""
