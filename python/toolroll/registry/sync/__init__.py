"""Tools that a plugin sends: checked, compared with what is there, and applied all or nothing."""
