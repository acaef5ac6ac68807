//! Simulations of the agents that ship.
