"""python -m kinora_ray bridge: the bridge of an engine, whose end of a socket is descriptor 3."""
import sys


def main():
    if sys.argv[1:] != ["bridge"]:
        sys.exit("kinora_ray: `kinora run` starts this itself; set engine = { use = \"ray\" } in a job")
    from .bridge import main as bridge
    bridge()


if __name__ == "__main__":
    main()
