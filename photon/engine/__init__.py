from photon.engine.engine import Engine as Engine
