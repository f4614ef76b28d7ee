// kinora apply of a stage: one file in, the samples that the stage makes of it out.
#include <algorithm>
#include <thread>

#include "apps/kinora/command.hpp"
#include "core/io/atomic_file.hpp"
#include "core/runtime/call.hpp"
#include "core/sample/sample.hpp"
#include "host/stages/one_stage.hpp"
#include "kinora/sample.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using core::json;
using core::StageResults;

// JSON and text fields in full, media as their size.
json fields_json(const Sample& sample) {
  json out{{"key", sample.key()}};
  for (const auto& field : sample.fields()) {
    const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    const bool is_json = field.name == "json" || field.name.ends_with(".json");
    if (is_json)
      out[std::string(field.name)] = json::parse(text, nullptr, false);
    else if (field.name == "txt" || field.name == "url")
      out[std::string(field.name)] = text;
    else
      out[std::string(field.name)] = {{"bytes", field.bytes.size()}};
  }
  return out;
}

// The stage's main result if one has the stage's name ("shots.content" sets "shots.json"), else the outcome
// of every sample.
json result_json(const std::string& name, const StageResults& r) {
  const std::string own = name.substr(0, name.find('.')) + ".json";
  if (r.emitted.size() == 1 && r.dropped.empty() && r.failed.empty())
    if (const auto text = r.emitted[0].text(own.c_str())) return json::parse(*text);
  json out{{"emitted", json::array()}, {"dropped", json::array()}, {"failed", json::array()}};
  for (const auto& sample : r.emitted) out["emitted"].push_back(fields_json(sample));
  for (const auto& d : r.dropped)
    out["dropped"].push_back({{"key", d.key}, {"rule", d.rule}, {"score", d.score}});
  for (const auto& f : r.failed) out["failed"].push_back({{"key", f.key}, {"reason", f.reason}});
  return out;
}

// Why the results are incomplete, or empty.
std::string problem_in(const StageResults& r) {
  for (const auto& sample : r.emitted)
    if (auto damage = core::damage_of(sample); !damage.empty()) return damage;
  return r.failed.empty() ? "" : r.failed.front().reason;
}

}  // namespace

void write_fields(const fs::path& folder, const Sample& sample) {
  const fs::path start = folder / sample.key();
  fs::create_directories(start.parent_path());
  for (const auto& field : sample.fields())
    if (field.name != "url")
      core::or_throw(core::write_file_atomically(
          start.string() + "." + std::string(field.name),
          {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()}));
}

core::ApplyResult apply_stage(core::Runtime& runtime, const core::ApplyRequest& request) {
  const core::Options options = core::apply_options(runtime, request);
  core::StageInstance stage(runtime.registry(), request.id, options, {});

  const std::string out =
      request.out.empty() ? fs::current_path().string() : fs::absolute(request.out).string();
  core::Call call{static_cast<uint64_t>(request.seed), 0, nullptr};
  kinora_run run = core::run_of(call);
  run.n_threads = static_cast<int32_t>(std::thread::hardware_concurrency());
  run.out = str(out);

  const std::string key = core::key_of_name(fs::path(request.input).stem().string());
  Sample input(key);
  input.set("url", fs::absolute(request.input).string());
  StageResults results;
  const kinora_emit sink = results.sink();
  core::ApplyResult made;
  try {
    results.input = key;
    stage.process(input.get(), sink, run);
    results.input.clear();
    stage.finish(sink, run);
    results.end_held();
  } catch (const Error& e) {
    // Samples emitted before a damaged video failed are results too, even if it crashed the stage's process.
    if (e.code() != KINORA_ERROR_DATA || (results.emitted.empty() && results.failed.empty())) throw;
    made.problem = e.what();
  }
  if (!request.out.empty())
    for (const auto& sample : results.emitted) write_fields(request.out, sample);
  made.result = result_json(stage.id().substr(stage.id().find('/') + 1), results);
  if (made.problem.empty()) made.problem = problem_in(results);
  return made;
}

}  // namespace kinora
