"""Reading, describing and comparing tables, whatever holds them."""
