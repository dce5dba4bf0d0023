"""A beam that sticks out of a wall and carries a load at its end: it shall be light, and bend little.

Whoever wants both has to choose: the trial reports both, and further numbers that are only looked at. Needs nothing but
Python.
"""

import math

import nni

LENGTH = 1.0  # metres
LOAD = 500.0  # newtons
PIECES = 8
#: Young's modulus in pascals, density in kilograms per cubic metre.
MATERIALS = {"steel": (200e9, 7850.0), "aluminium": (70e9, 2700.0), "oak": (11e9, 700.0)}


def pipe(diameter, wall):
    """Area and second moment of area of a pipe; both in millimetres, the wall as a share of the radius."""
    outer = diameter / 2000
    inner = outer * (1 - wall)
    return math.pi * (outer**2 - inner**2), math.pi / 4 * (outer**4 - inner**4)


def main():
    parameters = {"diameter": 40.0, "wall": 0.2, "material": "steel"}
    # Outside of an experiment there are no parameters: the defaults above are used.
    parameters.update(nni.get_next_parameter() or {})

    stiffness, density = MATERIALS[parameters["material"]]
    area, moment = pipe(parameters["diameter"], parameters["wall"])
    bent = weight = 0.0
    for piece in range(1, PIECES + 1):
        # from the wall outwards: how far the end of this piece has sunk, and what the beam weighs up to here
        at = LENGTH * piece / PIECES
        bent = LOAD * at**2 * (3 * LENGTH - at) / (6 * stiffness * moment) * 1000
        weight = density * area * at
        nni.report_intermediate_result({"weight": weight, "bending": bent})
    stress = LOAD * LENGTH * parameters["diameter"] / 2000 / moment / 1e6
    print(f"{weight:.3f} kg, bends by {bent:.3f} mm, {stress:.1f} MPa")
    nni.report_final_result({"weight": weight, "bending": bent, "stress": stress})


if __name__ == "__main__":
    main()
