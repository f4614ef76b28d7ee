// A component of kind `source` that gives the samples of a set of data, instead of shards.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/config/document.hpp"
#include "core/plugin/registry.hpp"
#include "core/run/source_instance.hpp"

namespace kinora::core {

struct DataSource {
  std::string id, version;  // "source/acme.table", and its plugin's version
  nlohmann::json options;   // complete
  // Opens all of the data at a path or URI. Throws Error.
  std::function<std::unique_ptr<SourceInstance>(const std::string& path)> open;
  int64_t results = 1;  // ComponentSpec::results

  // Returns the values that a result depends on.
  nlohmann::json identity() const {
    nlohmann::json out{{"id", id}, {"version", version}, {"options", options}};
    if (results != 1) out["results"] = results;
    return out;
  }
};

// Reads the value at a pointer: the name of a source, or a table with `use` and options. Null after a problem.
using ReadSource =
    std::function<std::shared_ptr<const DataSource>(const std::string& pointer, const nlohmann::json& given)>;

// base: what relative paths among the options are relative to. All arguments outlive the function; the registry also
// outlives what it returns.
ReadSource source_reader(const Document&, Registry&, const std::filesystem::path& base,
                         std::vector<Diagnostic>& problems);

}  // namespace kinora::core
