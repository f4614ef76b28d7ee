// A run file while it is read, which the parts of the reader share (run_file.cpp). Each part records the problems that
// it finds and continues.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/run/run_file.hpp"

namespace kinora::core {

struct RunReading {
  const Document& doc;
  Registry& registry;
  std::vector<Diagnostic>& problems;
  RunFile run{};
  std::optional<ComponentUse> engine{};  // of jobs that name none
  std::set<std::string> unread{};        // names of jobs whose kind or pipeline could not be read

  void problem(Location at, std::string message) { problems.push_back({std::move(at), std::move(message)}); }
  // The string at `key`, or `fallback`; a problem if it is of another type.
  std::string text(const std::string& pointer, const nlohmann::json& table, const std::string& key,
                   const std::string& fallback);
};

// Reads a job's `input`.
void read_inputs(RunReading&, const std::string& pointer, const nlohmann::json& table, JobSpec& job);

// Components with wrong options, as indices, and whether a component could not be read at all.
struct SlotsRead {
  std::vector<size_t> unsound;
  bool lacks_component = false;
};
// Reads a job's components.
SlotsRead read_slots(RunReading&, const std::string& pointer, const nlohmann::json& table, JobSpec& job);

}  // namespace kinora::core
