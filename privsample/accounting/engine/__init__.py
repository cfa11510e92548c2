"""Privacy bounds of an account, and everything computed from them: views, composition, group privacy, tables."""
