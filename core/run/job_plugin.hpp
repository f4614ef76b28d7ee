// Makes a kind of job a plugin of tier "host". `kinora plugins new job NAME` writes one to start from.
//
//   class Count final : public kinora::core::JobType {
//    public:
//     struct Options {
//       int64_t threads = 0;
//       static void describe(kinora::Describe<Options>& d) {
//         d.name("count").help("Counts the clips of a curate job");
//       }
//     };
//     static kinora::core::JobParts parts() { return {.reads = {"curate"}}; }
//     void run(kinora::core::JobContext& job) const override;
//   };
//   KINORA_JOB(Count)
//   KINORA_PLUGIN(Count)
#pragma once
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/plugin/kinds.hpp"
#include "core/run/job.hpp"
#include "core/run/job_check.hpp"
#include "kinora/plugin.hpp"

namespace kinora::core {

// A job's slots and the kinds of jobs it reads, for its manifest.
struct JobParts {
  std::vector<Slot> slots{};
  // Kinds of jobs, "path", "data", "folder" (of such a finished job of another run); empty: every other job of the run.
  std::vector<std::string> reads{};
  bool needs_input = true;
  bool tensors = false;  // load libtorch before the job's library
  bool draws = true;     // its results depend on the run's seed; false: only if a stage of it draws

  std::string toml() const;  // the lines of a [[component]]
};

inline std::string JobParts::toml() const {
  const auto quoted = [](const std::string& s) { return detail::toml_string(s); };
  std::string out = "reads = " + detail::OptionType<std::vector<std::string>>::toml(reads) + "\n";
  if (!needs_input) out += "needs_input = false\n";
  if (tensors) out += "tensors = true\n";
  if (!draws) out += "draws = false\n";
  for (const auto& s : slots) {
    out += fmt::format("slot.{} = {{ kind = {}", s.name, quoted(s.kind));
    if (!s.use.empty()) out += ", default = " + quoted(s.use);
    if (!s.from.empty()) out += ", from = " + quoted(s.from);
    if (s.required) out += ", required = true";
    if (s.list) out += ", list = true";
    if (s.how_only) out += ", how_only = true";
    if (!s.weights.empty()) out += ", weights = " + quoted(s.weights);
    out += ", help = " + quoted(s.help) + " }\n";
  }
  return out;
}

template <class T>
kinora_component job_component() {
  static const T type;
  static const kinora_job table{sizeof(kinora_job), 0, []() -> const JobType* { return &type; }};
  static const auto text = [] {
    Describe<typename T::Options> d;
    T::Options::describe(d);
    return std::pair{d.id("job"), d.toml("job") + T::parts().toml()};
  };
  static const std::string id = text().first;
  return {sizeof(kinora_component),
          0,
          id.c_str(),
          kJobInterface,
          &table,
          [](const kinora_sink* out) {
            return guard([&] {
              const std::string all = text().second;
              out->write(out->self, all.data(), all.size());
            });
          },
          nullptr};
}

// Slots that several kinds have.
inline const Slot kEngineSlot{.name = "engine",
                              .kind = "engine",
                              .use = "local",
                              .required = true,
                              .help = "engine that runs the stages",
                              .how_only = true};
inline const Slot kParallelSlot{.name = "parallel",
                                .kind = "parallel",
                                .use = "single",
                                .required = true,
                                .list = true,
                                .help = "parallel strategies, composed",
                                .how_only = true};
inline const Slot kCollectiveSlot{.name = "collective",
                                  .kind = "collective",
                                  .use = "gloo",
                                  .required = true,
                                  .help = "communication between ranks",
                                  .how_only = true};

}  // namespace kinora::core

#define KINORA_JOB(Class) \
  kinora_component kinora_component_##Class() { return kinora::core::job_component<Class>(); }
