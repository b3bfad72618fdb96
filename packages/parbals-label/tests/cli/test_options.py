"""What commands of a project share."""

from pathlib import Path

from parbals_label.cli.options import network_file_system


def test_a_network_file_system_is_known_by_the_innermost_mount(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 0:44 / /home rw - nfs4 server:/home rw\n"
        "31 30 8:2 / /home/ann/my\\040disk rw master:2 - xfs /dev/sdb1 rw\n"
        "32 22 0:45 / /mnt rw - ext4 /dev/sdc1 rw\n"
        "33 32 0:46 / /mnt rw - cifs //server/share rw\n"
        "not a mount\n",
        encoding="utf-8",
    )

    def kind(path):
        return network_file_system(Path(path), mounts)

    assert kind("/srv/project") is None
    assert kind("/home/ann/project") == "nfs4"
    assert kind("/homework") is None
    assert kind("/home/ann/my disk/project") is None
    assert kind("/mnt/project") == "cifs", "the later mount hides the earlier one"
    assert network_file_system(tmp_path, tmp_path / "no such file") is None
