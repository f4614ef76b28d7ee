// The folder of SQLite's temporary files, which have the lists of inputs (Database::Access::scratch).
#pragma once
#include <filesystem>
#include <string>

namespace kinora::core {

// The first of SQLITE_TMPDIR, TMPDIR, /var/tmp, /usr/tmp, /tmp and the current folder in which files can be made, as
// SQLite chooses it (sqlite.org/tempfiles.html, section 5). Throws Error(KINORA_ERROR_INVALID) if SQLITE_TMPDIR is
// set and no such folder: SQLite would take the next one, with less room.
std::filesystem::path scratch_folder();

// The name of such a file for errors: what it has, where it is, and how to choose another place. Throws as
// scratch_folder().
std::string scratch_name(const std::string& what);

}  // namespace kinora::core
