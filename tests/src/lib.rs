//! Tests over the whole house: what one room alone cannot show.
