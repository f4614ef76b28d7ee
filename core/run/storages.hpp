// [storage.s3] and its like in a run file: options of the storages that URIs name by their scheme.
#pragma once
#include <vector>

#include "core/io/io.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

// Of the table `storage`, one entry a scheme. What is wrong is added to `problems`.
std::vector<ComponentUse> read_storages(const Document& doc, const Registry& registry,
                                        const std::filesystem::path& base, std::vector<Diagnostic>& problems);

// Gives `io` the options; a storage that cannot be made of them is a problem of its table. Nothing is read.
void configure_storages(Io& io, const RunFile& run, std::vector<Diagnostic>& problems);

// Whether an input is a URI, "s3://bucket/films/", which is no path of this machine.
bool is_uri(std::string_view text);
// The problem of such an input as far as it shows without reading: a scheme that no storage has, a bad form.
Status check_uri(const Registry& registry, std::string_view text);

}  // namespace kinora::core
