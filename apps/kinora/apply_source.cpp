// kinora apply of a source: its samples, their fields and sizes.
#include "apps/kinora/command.hpp"
#include "core/base/cancel.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/byte_source.hpp"
#include "core/plugin/opening.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using core::json;

json sizes_of(const Sample& sample) {
  json fields = json::object();
  for (const auto& field : sample.fields()) fields[std::string(field.name)] = field.bytes.size();
  return {{"key", sample.key()}, {"fields", fields}};
}

void restore_from(core::SourceInstance& source, const fs::path& file) {
  if (!fs::exists(file)) return;
  source.restore(core::or_throw(core::read_text(file.string(), KINORA_SOURCE_MOST_STATE)));
}

}  // namespace

core::ApplyResult apply_source(core::Runtime& runtime, const core::ApplyRequest& request,
                               const SourceRequest& asked) {
  const core::Options options = core::apply_options(runtime, request);
  core::SourceInstance source(core::open_component(runtime.registry(), {}, request.id), options,
                              request.input, asked.part);
  if (!asked.state.empty()) restore_from(source, asked.state);
  json samples = json::array(), failed = json::array();
  bool ended = false;
  std::string failed_at;  // the state after the last failure
  while (!core::cancelled() && (asked.limit == 0 || samples.size() < asked.limit)) {
    try {
      const auto sample = source.next();
      ended = !sample;
      if (ended) break;
      if (!request.out.empty()) write_fields(request.out, *sample);
      samples.push_back(sizes_of(*sample));
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_DATA) throw;
      failed.push_back(e.what());
      const std::string at = source.state();
      if (at == failed_at)
        throw Error(KINORA_ERROR_FAILED, request.id + ": it has not passed over the damage: " + e.what());
      failed_at = at;
    }
  }
  if (!asked.state.empty()) core::or_throw(core::write_file_atomically(asked.state, source.state()));
  if (core::cancelled()) throw Error(KINORA_ERROR_CANCELLED, "interrupted");
  core::ApplyResult made;
  made.result = {{"samples", samples}, {"failed", failed}, {"ended", ended}};
  if (const auto count = source.count()) made.result["count"] = *count;
  if (!failed.empty()) made.problem = failed.front().get<std::string>();
  if (failed.size() > 1) made.problem += fmt::format(" (and {} more)", failed.size() - 1);
  return made;
}

}  // namespace kinora
