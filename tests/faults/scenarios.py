"""Every fault by name."""

from faults.agreements_killed import agreements_killed
from faults.all_killed import all_killed
from faults.clients_killed import clients_killed
from faults.cluster_work import cluster_primary_frozen, cluster_reshaped
from faults.hostile import disk_full, disk_full_everysec, slow_clients
from faults.pictures_kept import pictures, pictures_disk_full
from faults.processes_killed import cancelled, replies_dropped, rolling, scripts_flushed, service_killed, store_killed
from faults.runs import Scenario
from faults.store_trouble import cluster_primary_killed, out_of_memory, slot_moved, store_absent

SCENARIOS: dict[str, Scenario] = {
    "store-killed": store_killed,
    "service-killed": service_killed,
    "clients-killed": clients_killed,
    "agreements-killed": agreements_killed,
    "all-killed": all_killed,
    "rolling": rolling,
    "cancelled": cancelled,
    "replies-dropped": replies_dropped,
    "scripts-flushed": scripts_flushed,
    "out-of-memory": out_of_memory,
    "store-absent": store_absent,
    "cluster-primary-killed": cluster_primary_killed,
    "cluster-primary-frozen": cluster_primary_frozen,
    "cluster-reshaped": cluster_reshaped,
    "slot-moved": slot_moved,
    "slow-clients": slow_clients,
    "disk-full": disk_full,
    "disk-full-everysec": disk_full_everysec,
    "pictures": pictures,
    "pictures-disk-full": pictures_disk_full,
}
