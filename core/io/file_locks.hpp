// Locks of files, and disks that have none: some network and FUSE file systems refuse every lock.
#pragma once
#include <filesystem>

namespace kinora::core {

// Whether an errno of flock() or fcntl() says that the disk has no locks: ENOLCK, ENOSYS, EOPNOTSUPP, ENOTSUPP
// (524, which NFS servers hand on).
bool means_no_locks(int error);
// Whether a byte of the file can be locked, or is locked by another process. Use it only after a lock failed:
// it ends this process's own locks on the file.
bool can_lock(const std::filesystem::path& file);
// Logs once for a folder that its files cannot be locked, so that nothing stops a second program from writing
// there.
void say_without_locks(const std::filesystem::path& folder);

}  // namespace kinora::core
