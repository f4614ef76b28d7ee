#include <algorithm>
#include <thread>

#include "core/io/atomic_file.hpp"
#include "core/run/apply.hpp"
#include "core/run/cancel.hpp"
#include "kinora/abi/stage.h"
#include "kinora/sample.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// What one stage makes of one sample.
struct Collected {
  std::vector<Sample> emitted;
  json dropped = json::array();

  kinora_emit sink() {
    kinora_emit e{};
    e.struct_size = sizeof e;
    e.self = this;
    e.emit = [](void* self, kinora_sample* s) {
      return guard([&] { static_cast<Collected*>(self)->emitted.push_back(Sample::adopt(s)); });
    };
    e.drop = [](void* self, kinora_sample* s, const char* rule, double score) {
      return guard([&] {
        const Sample sample = Sample::adopt(s);
        static_cast<Collected*>(self)->dropped.push_back(
            {{"key", sample.key()}, {"rule", rule}, {"score", score}});
      });
    };
    return e;
  }
};

// JSON and text fields as they are, media as their size.
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

// The result proper if the stage names one after itself ("shots.content" sets "shots.json"), else every
// emitted sample.
json result_json(const std::string& name, const Collected& c) {
  const std::string own = name.substr(0, name.find('.')) + ".json";
  if (c.emitted.size() == 1 && c.dropped.empty())
    if (const auto text = c.emitted[0].text(own.c_str())) return json::parse(*text);
  json out{{"emitted", json::array()}, {"dropped", c.dropped}};
  for (const auto& sample : c.emitted) out["emitted"].push_back(fields_json(sample));
  return out;
}

void write_fields(const fs::path& folder, const Sample& sample) {
  fs::create_directories(folder);
  for (const auto& field : sample.fields())
    if (field.name != "url")
      or_throw(
          write_file_atomically(folder / (std::string(sample.key()) + "." + std::string(field.name)),
                                {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()}));
}

}  // namespace

Options apply_options(Runtime& runtime, const ApplyRequest& request) {
  const auto* spec = or_throw(runtime.registry().find(request.id));
  return or_throw(Options::make(*spec, request.options, fs::current_path()));
}

ApplyResult apply_stage(Runtime& runtime, const ApplyRequest& request) {
  const Options options = apply_options(runtime, request);
  const Component component = or_throw(runtime.registry().open(request.id));
  const auto& stage = component.table<kinora_stage>();
  void* self = made(stage.create(host(), options.abi()), request.id);
  const std::unique_ptr<void, void (*)(void*)> owned(self, stage.destroy);

  const std::string out =
      request.out.empty() ? fs::current_path().string() : fs::absolute(request.out).string();
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = static_cast<int32_t>(std::thread::hardware_concurrency());
  run.seed = static_cast<uint64_t>(request.seed);
  run.out = str(out);
  run.cancelled = [](void*) -> int32_t { return cancelled() ? KINORA_CANCELLED : KINORA_OK; };

  std::string key = fs::path(request.input).stem().string();
  std::replace(key.begin(), key.end(), '.', '-');
  Sample input(key);
  input.set("url", fs::absolute(request.input).string());
  Collected collected;
  const kinora_emit sink = collected.sink();
  check(stage.process(self, input.get(), &sink, &run));
  if (stage.finish) check(stage.finish(self, &sink, &run));
  if (!request.out.empty())
    for (const auto& sample : collected.emitted) write_fields(request.out, sample);
  return {result_json(component.spec->name, collected)};
}

}  // namespace kinora::core
