"""The files of ``examples`` that ``hybrid demo`` needs, as the package installs them."""
