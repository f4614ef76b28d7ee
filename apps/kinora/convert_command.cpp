// kinora convert IN OUT [--component ID] [--from F] [--to F] [--dtype D] [--max-shard SIZE] [--merge ADAPTER]
// [--unmerge ADAPTER]
#include <filesystem>
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "core/base/quantity.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;

constexpr const char* kConvertHelp = R"(usage: kinora convert IN OUT [options]

Converts weights to another form. IN is a safetensors file, an index of shards (X.safetensors.index.json), a diffusers folder or,
with --component, a whole pipeline. OUT is a file X.safetensors, or a folder in the layout of diffusers, with IN's config.json.
Tensors that are only renamed or sharded keep their bytes; metadata is kept.

examples:
  kinora convert model.safetensors.index.json model.safetensors
  kinora convert model.safetensors folder --max-shard "2 GB"
  kinora convert Wan2.1_T2V.safetensors folder --component model/wan --to diffusers
  kinora convert transformer/ small.safetensors --dtype bf16
  kinora convert transformer/ merged.safetensors --merge adapter/

)";

po::options_description convert_flags() {
  const auto text = [](const char* name) {
    return po::value<std::string>()->default_value("")->value_name(name);
  };
  po::options_description options("options");
  options.add_options()(
      "component", text("ID"),
      "component that the tensors belong to; needed to rename them and to find one part of a pipeline")(
      "from", text("LAYOUT"),
      "naming scheme of IN; detected if not given. kinora plugins inspect ID lists them")(
      "to", text("LAYOUT"), "naming scheme of OUT: kinora (the component's own) or one of its layouts")(
      "dtype", text("D"), "dtype of floating-point tensors: bf16, fp16, fp32")(
      "max-shard", text("SIZE"),
      "largest file, for example \"5 GB\"; default: 10 GB in a folder, no limit for a file")(
      "merge", text("ADAPTER"), "add a LoRA adapter (PEFT's folder or file)")(
      "unmerge", text("ADAPTER"), "remove a merged adapter; exact up to rounding")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("k=v"),
      "an option of the component; config=FILE.json")("json", "print the result as JSON")("help,h",
                                                                                          "this text");
  return options;
}

}  // namespace

int convert_command(core::Runtime& runtime, const Arguments& arguments) {
  po::options_description all = convert_flags();
  all.add_options()("in", po::value<std::string>()->default_value(""))(
      "out", po::value<std::string>()->default_value(""));
  po::positional_options_description positional;
  positional.add("in", 1).add("out", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  if (given.count("help")) {
    std::cout << kConvertHelp << convert_flags();
    return kDone;
  }
  const auto text = [&](const char* name) { return given[name].as<std::string>(); };
  if (text("in").empty() || text("out").empty())
    return complain(kUsage, "convert: IN and OUT are required; see kinora convert --help");
  for (const char* name : {"in", "merge", "unmerge"}) {
    std::error_code unreadable;
    if (!text(name).empty() && !std::filesystem::exists(text(name), unreadable))
      return complain(kUsage,
                      fmt::format("convert: there is no {}; {}", text(name),
                                  std::string_view(name) == "in"
                                      ? "give a safetensors file, an index of shards or a folder of weights"
                                      : "give the file or folder of a LoRA adapter"));
  }
  nlohmann::json request;
  for (const char* name : {"in", "out", "from", "to", "dtype", "merge", "unmerge"})
    request[name] = text(name);
  if (!text("max-shard").empty()) {
    const auto size = core::parse_size(text("max-shard"));
    if (!size || *size <= 0)
      return complain(kUsage, "--max-shard: " + (size ? "'" + text("max-shard") + "' must be above 0"
                                                      : size.failure().message));
    request["max_shard"] = *size;
  }
  if (!text("component").empty()) {
    const auto spec = runtime.registry().find(text("component"));
    if (!spec) return complain(kUsage, "convert: " + spec.failure().message);
    const auto sets =
        given.count("set") ? given["set"].as<std::vector<std::string>>() : std::vector<std::string>();
    request["component"] = (*spec)->id;
    request["options"] = options_of(runtime.registry(), **spec, sets, text("in"));
  } else if (given.count("set")) {
    return complain(kUsage, "convert: --set needs --component ID");
  }
  const auto result = core::torch_tool("convert")(runtime, request);
  if (given.count("json")) {
    std::cout << result.dump() << "\n";
    return kDone;
  }
  std::cout << fmt::format("{}: {} tensors, {}\n", result["file"].get<std::string>(),
                           result["tensors"].get<int64_t>(),
                           core::format_size(result["bytes"].get<uint64_t>()));
  if (result["from"] != result["to"])
    std::cout << fmt::format("names: {} -> {}\n", result["from"].get<std::string>(),
                             result["to"].get<std::string>());
  if (result["merged"] != 0)
    std::cout << fmt::format("adapted: {} matrices\n", result["merged"].get<int64_t>());
  return kDone;
}

}  // namespace kinora
