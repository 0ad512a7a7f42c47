"""Values in texts, as the audit reads them."""
