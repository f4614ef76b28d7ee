// kinora-bench, which `kinora bench [NAME]` runs: measures this machine and prints a table per benchmark, or one
// line of JSON.
#include <iostream>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "apps/bench/bench.hpp"
#include "apps/command/flags.hpp"
#include "apps/command/program.hpp"
#include "core/base/suggest.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;

constexpr const char* kBenchHelp = R"(usage: kinora bench [NAME] [options]

Measures this machine and prints a table per benchmark, with --json one line of JSON. Compared things are
measured alternately in one run because machines are noisy: look at the ratios. The exit code is 1 where a
benchmark misses its bound; bounds are for an idle machine.

  plugin_call   ns of a call through the plugin ABI, and of a direct virtual call
  startup       ms of `kinora plugins list` from start to end, warm, and whether libtorch was loaded for it
  shots         frames a second of stage/shots.content, downscaled and not, and of five detectors with frames
                for other stages, against decoding alone, and of PySceneDetect where Python has it
  curate        only by name: frames a second of stage/clip.transcode over 12 clips of a 720p video, encoding
                and copying, against ffmpeg processes
  curate_pipeline
                only by name: a whole curate job over many videos: how busy the cores are, and its speed
                relative to decoding and encoding each video once
  curate_memory
                only by name: peak memory of all processes of a curate job that samples frames, over a video
                of 10 minutes and one of 3 hours, and its growth
  record        only by name: the record of a curate job with 1,000,000 clips: outcomes a second, seconds to
                resume and to export, memory
  data          only by name: samples a second of shards, in the order of a training, against `cat` of the
                files; pictures decoded and batched; with --peer in turns with loaders in Python
  train         a step of a small DiT: forward, backward, clipping, AdamW; with --peer in turns with PyTorch's
  sample        one call of that DiT's denoiser
  vae           tokenizer/wan at a quarter of its width: encode and decode
  block         forward and backward of one block of the 7B DiT; on a GPU in bfloat16, where its share of a
                large product is the MFU, and in fp8 and nvfp4, and the forward with and without a CUDA graph
  parallel      overhead of strategies on a single rank; attention, layouts and pipelines on two and four
                ranks of this machine, against one process with as many threads and against each other
  balance       only by name: the placement of workers on clusters of 1 to 4,096 nodes against the optimum or
                a bound, and in simulated time
  workers       only by name: a stage in this process and in a process of its own: samples and bytes a second

train, sample, vae and block print floating-point operations per second as a share of a product of large
matrices in the same run. With one thread, train, sample and vae measure processor time, else wall time; the
best of all rounds counts.

examples:
  kinora bench                              all of them but those that are run by name only
  kinora bench shots --video my_720p.mp4    on a video of yours
  kinora bench --json                       for programs
  kinora bench train --peer 'python3 tests/oracle/bench_peer.py' --repeat 2
  kinora bench data --peer 'python3 tests/oracle/bench_data_peer.py' --repeat 3
  kinora bench block --device cuda --tokens 74000

)";

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> all{{"plugin_call", bench_plugin_call},
                                          {"startup", bench_startup},
                                          {"shots", bench_shots},
                                          {"curate", bench_curate, true},
                                          {"curate_pipeline", bench_curate_pipeline, true},
                                          {"curate_memory", bench_curate_memory, true},
                                          {"record", bench_record, true},
                                          {"data", bench_data, true},
                                          {"train", bench_train},
                                          {"sample", bench_sample},
                                          {"vae", bench_vae},
                                          {"block", bench_block},
                                          {"parallel", bench_parallel},
                                          {"balance", bench_balance, true},
                                          {"workers", bench_workers, true}};
  return all;
}

// Prints a row per value: "  content.of_decoding   0.972".
void print_rows(const nlohmann::json& value, const std::string& name) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) print_rows(member, name.empty() ? key : name + "." + key);
    return;
  }
  const std::string text = value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                           : value.is_boolean()    ? (value.get<bool>() ? "yes" : "no")
                           : value.is_string()     ? value.get<std::string>()
                                                   : value.dump();
  std::cout << fmt::format("  {:<36} {}\n", name, text);
}

void print_result(nlohmann::json line, bool as_json) {
  if (as_json) {
    std::cout << line.dump() << std::endl;
    return;
  }
  std::cout << line.at("benchmark").get<std::string>() << "\n";
  line.erase("benchmark");
  print_rows(line, "");
  std::cout << std::endl;
}

// A benchmark that cannot be measured does not stop the others.
nlohmann::json measured(const Benchmark& b, core::Runtime& runtime, const BenchOptions& options) {
  try {
    return b.run(runtime, options);
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_CANCELLED) throw;
    return {{"error", e.what()}};
  }
}

// Names the parts of a benchmark that miss a bound of their own: " (copy, transcode)"; empty if it has none.
std::string missed_parts(const nlohmann::json& line) {
  std::string out;
  for (const auto& [name, part] : line.items())
    if (part.is_object() && !part.value("within", true)) out += (out.empty() ? " (" : ", ") + name;
  return out.empty() ? out : out + ")";
}

// The complaint about a benchmark that failed or missed its bound; empty: it did neither.
std::string complaint_about(const nlohmann::json& line, const char* name) {
  if (line.contains("error")) return line.at("error");
  if (line.value("within", true)) return {};
  return fmt::format(
      "{}: misses its bound{}. Nothing is broken and no result is wrong: it took more time or memory than "
      "intended, as happens on a busy machine. Measure again while nothing else runs",
      name, missed_parts(line));
}

po::options_description bench_options() {
  po::options_description visible("options");
  visible.add_options()("video", po::value<std::string>()->default_value("")->value_name("FILE"),
                        "video for shots; default: a generated one")(
      "repeat", po::value<int>()->default_value(5)->value_name("N"), "rounds")(
      "threads", po::value<int>()->default_value(1)->value_name("N"),
      "threads of train, sample, vae and block, and of our decoder in shots; curation gives each video one "
      "and runs several videos at once, PySceneDetect takes all cores")(
      "peer", po::value<std::string>()->default_value("")->value_name("CMD"),
      "command of a peer that measures train, sample and vae, or data, elsewhere, once per round")(
      "tokens", po::value<int64_t>()->default_value(256)->value_name("N"),
      "approximate number of video tokens in block")(
      "device", po::value<std::string>()->default_value("auto")->value_name("NAME"),
      "device of the benchmark `block`: auto, cpu, cuda or cuda:N")("json",
                                                                    "print one line of JSON per benchmark")(
      "quick", po::bool_switch(), "use small sizes, to check that everything can be measured here")(
      "help,h", "this text");
  return visible;
}

// The flags of kinora that come before the command `bench`.
po::options_description flags_of_kinora() {
  po::options_description out;
  out.add_options()("plugins", po::value<std::vector<std::string>>()->composing())(
      "plugins-lock", po::value<std::string>()->default_value(""))(
      "log", po::value<std::string>()->default_value(""));
  return out;
}

core::RuntimeOptions runtime_options(const po::variables_map& given) {
  core::RuntimeOptions out{.log_level = given["log"].as<std::string>(),
                           .plugins_lock = given["plugins-lock"].as<std::string>()};
  if (given.count("plugins"))
    for (const auto& folder : given["plugins"].as<std::vector<std::string>>())
      out.plugin_dirs.emplace_back(folder);
  return out;
}

// Names the first value out of range; empty if there is none.
std::string out_of_range(const BenchOptions& options) {
  if (options.repeat < 1) return fmt::format("--repeat {} must be 1 or more", options.repeat);
  if (options.threads < 1) return fmt::format("--threads {} must be 1 or more", options.threads);
  if (options.tokens < 32) return fmt::format("--tokens {} must be 32 or more", options.tokens);
  return "";
}

// Runs the named benchmark, or all of them but those that are run by name only.
int measure(core::Runtime& runtime, const std::string& name, const BenchOptions& options, bool as_json) {
  std::vector<std::string> missed, names;
  bool any = false;
  for (const auto& b : benchmarks()) {
    names.emplace_back(b.name);
    if (name.empty() ? b.only_named : name != b.name) continue;
    any = true;
    auto line = measured(b, runtime, options);
    line["benchmark"] = b.name;
    print_result(line, as_json);
    if (std::string why = complaint_about(line, b.name); !why.empty()) missed.push_back(std::move(why));
  }
  if (!any)
    return complain(kUsage, "bench: no benchmark is called '" + name + "'" +
                                core::did_you_mean_or_list(name, names, "benchmarks"));
  for (const auto& why : missed) complain(kFailed, why);
  return missed.empty() ? kDone : kFailed;
}

int bench(const Arguments& arguments) {
  const auto visible = bench_options();
  po::options_description all;
  all.add(visible).add(flags_of_kinora()).add_options()("name", po::value<std::string>()->default_value(""));
  po::positional_options_description positional;
  positional.add("name", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  if (given.count("help")) {
    std::cout << help_of(kBenchHelp, visible);
    return kDone;
  }
  const BenchOptions options{given["video"].as<std::string>(), given["repeat"].as<int>(),
                             given["threads"].as<int>(),       given["peer"].as<std::string>(),
                             given["tokens"].as<int64_t>(),    given["device"].as<std::string>(),
                             given["quick"].as<bool>()};
  if (const auto wrong = out_of_range(options); !wrong.empty()) return complain(kUsage, "bench: " + wrong);
  const auto runtime = start_runtime(runtime_options(given));
  if (!runtime) return kUsage;
  return measure(*runtime, given["name"].as<std::string>(), options, given.count("json") > 0);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  using namespace kinora;
  return end_with(run_and_report([&] { return bench({argv + 1, argv + argc}); }));
}
