"""States of pipelines as each version has left them, and what makes and unpacks them."""
