// Finds what the inputs of a job name: local files by path or pattern, and URIs with the storages of their schemes.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/io.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

// Expands a path, pattern or URI. Paths and patterns are resolved against the run file's folder, then, with a
// warning, against the working directory; "~/" is the home directory. The files are sorted; empty: none
// exists. The target of a URI is not checked.
std::vector<std::string> expand_input(const std::filesystem::path& run_file, const std::string& input);
// The message for an input for which expand_input() finds nothing. jobs: names of the earlier jobs, which it
// may mean.
std::string explain_missing_input(const std::filesystem::path& run_file, const std::string& input,
                                  const std::vector<std::string>& jobs);

// Whether an input is a URI such as "s3://bucket/videos/" rather than a local path.
bool is_uri(std::string_view text);
// Checks such an input without reading it: no storage has its scheme, or its form is wrong.
Status check_uri(const Registry& registry, std::string_view text);

// Reads the table `storage` of a run file, with one entry per scheme, such as [storage.s3]: the options of
// the storage that URIs name by that scheme. Errors are added to `problems`.
std::vector<ComponentUse> read_storages(const Document& doc, const Registry& registry,
                                        const std::filesystem::path& base, std::vector<Diagnostic>& problems);

// Passes the options to `io`. A storage that cannot be created from them is a problem of its table. Reads
// nothing.
void configure_storages(Io& io, const RunFile& run, std::vector<Diagnostic>& problems);

}  // namespace kinora::core
