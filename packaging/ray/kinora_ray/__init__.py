"""The half of Kinora's engine/ray that runs in Python: the bridge between the engine and Ray, and the actors that hold
stages. `kinora run` starts it; nothing here is for other callers."""
