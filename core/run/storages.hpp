// [storage.s3] and its like in a run file: options of the storages that URIs name by their scheme.
#pragma once
#include <vector>

#include "core/io/io.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

// Reads the table `storage`, one entry per scheme. Errors are added to `problems`.
std::vector<ComponentUse> read_storages(const Document& doc, const Registry& registry,
                                        const std::filesystem::path& base, std::vector<Diagnostic>& problems);

// Passes the options to `io`. A storage that cannot be created from them is a problem of its table. Reads
// nothing.
void configure_storages(Io& io, const RunFile& run, std::vector<Diagnostic>& problems);

// Whether an input is a URI such as "s3://bucket/films/" rather than a local path.
bool is_uri(std::string_view text);
// Checks such an input without reading it: no storage has its scheme, or its form is wrong.
Status check_uri(const Registry& registry, std::string_view text);

}  // namespace kinora::core
