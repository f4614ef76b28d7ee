// A disk without room.
#pragma once
#include <cerrno>

namespace kinora::web {

// Whether this error of the system says that a file cannot grow: the disk is full, or the user's share of it, or the
// file has the most bytes that it may have.
inline bool is_disk_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace kinora::web
