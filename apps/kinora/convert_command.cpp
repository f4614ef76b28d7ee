// kinora convert IN OUT [--component ID] [--from F] [--to F] [--dtype D] [--max-shard SIZE] [--merge ADAPTER]
// [--unmerge ADAPTER] [--expert high|low] [--precision nvfp4 [--format F] [--scale-rule R] [--block B]
// [--high PATTERN]...]
#include <algorithm>
#include <filesystem>
#include <iostream>

#include <boost/program_options.hpp>
#include <fmt/ranges.h>

#include "apps/kinora/command.hpp"
#include "core/base/quantity.hpp"
#include "core/runtime/tensor_service.hpp"
#include "host/weights/choices.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;

const std::vector<std::string> kExperts{"high", "low"}, kPrecisions{"nvfp4"};

constexpr const char* kConvertHelp = R"(usage: kinora convert IN OUT [options]

Converts weights to another form. IN is a safetensors file, an index of shards (X.safetensors.index.json), a
diffusers folder or, with --component, a whole pipeline. OUT is a file X.safetensors, or a folder in the
layout of diffusers, with IN's config.json. Tensors that are only renamed or sharded keep their bytes;
metadata is kept. Matrices in four bits (NVFP4, of compressed-tensors or LongLive) are decoded to float32, or
to --dtype.

An adapter (LoRA of PEFT, diffusers, ComfyUI, kohya, musubi-tuner, diffusion-pipe, ai-toolkit or Kinora) as IN
is written for the program that --to names. Weights in eight bits with scales are decoded too.

--precision nvfp4 quantises the matrices X.weight of linear layers to four bits and prints the modules that
are left alone. Weights that a job trained in nvfp4, or that were in four bits before, note their matrices,
rule and block, and so keep their codes; for others give --scale-rule and --block.

examples:
  kinora convert model.safetensors.index.json model.safetensors
  kinora convert model.safetensors folder --max-shard "2 GB"
  kinora convert Wan2.1_T2V.safetensors folder --component model/wan --to kinora
  kinora convert transformer/ small.safetensors --dtype bf16
  kinora convert transformer/ merged.safetensors --merge adapter/
  kinora convert adapter/ lora/ --to diffusers
  kinora convert transformer/ small/ --precision nvfp4 --dtype bf16
  kinora convert small/ longlive.safetensors --precision nvfp4 --format longlive

)";

}  // namespace

Flags convert_flags() {
  const auto text = [](const std::string& name) {
    return po::value<std::string>()->default_value("")->value_name(name);
  };
  Flags options("options");
  options.add_options()(
      "component", text("ID"),
      "component that the tensors belong to; needed to rename them and to find one part of a pipeline")(
      "from", text("SCHEME"),
      "naming scheme of IN; detected if not given. kinora plugins inspect ID lists them")(
      "to", text("SCHEME|FORM"),
      fmt::format(
          "naming scheme of OUT: kinora (the component's own) or one of its layouts; of an adapter: {}",
          fmt::join(core::kAdapterForms, ", "))
          .c_str())("dtype", text(one_of(core::kDtypeNames)), "dtype of floating-point tensors")(
      "max-shard", text("SIZE"),
      "largest file, for example \"5 GB\"; default: 10 GB in a folder, no limit for a file")(
      "merge", text("ADAPTER"), "add a LoRA adapter: a folder or file of any program that help names")(
      "unmerge", text("ADAPTER"), "remove a merged adapter; exact up to rounding")(
      "expert", text(one_of(kExperts)), "the expert that is meant of a file with the adapters of both")(
      "precision", text(one_of(kPrecisions)), "nvfp4: matrices in four bits, with a scale for 16 values")(
      "format", text("FORMAT"),
      fmt::format("layout of four-bit matrices: {}; default: the first",
                  fmt::join(core::kPackedFormats, ", "))
          .c_str())(
      "scale-rule", text("RULE"),
      fmt::format("choice of the scales: {} (TransformerEngine's); default: the training's, else the first",
                  fmt::join(core::kScaleRules, ", "))
          .c_str())("block", text(one_of(core::kScaleBlocks)),
                    "values that share a scale; default: the training's, else the first")(
      "high", po::value<std::vector<std::string>>()->composing()->value_name("PATTERN"),
      "modules or weights that keep their precision, such as \"blocks.0.*\". One --high replaces the whole "
      "list, the training's or the default: embeddings, modulation, norms, heads")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("k=v"),
      "an option of the component; config=FILE.json")("json", "print the result as JSON")("help,h",
                                                                                          "this text");
  return options;
}

namespace {

// Adds the options of four-bit matrices; the message of a usage error, or "".
std::string add_precision(const po::variables_map& given, nlohmann::json& request) {
  const auto text = [&](const char* name) { return given[name].as<std::string>(); };
  const std::string precision = text("precision");
  for (const char* name : {"format", "scale-rule", "block"})
    if (precision.empty() && !text(name).empty()) return fmt::format("--{} needs --precision nvfp4", name);
  if (precision.empty()) return given.count("high") ? "--high needs --precision nvfp4" : "";
  if (std::ranges::find(kPrecisions, precision) == kPrecisions.end())
    return fmt::format("unknown precision '{}'; precisions: {}", precision, fmt::join(kPrecisions, ", "));
  request["precision"] = precision;
  request["format"] = text("format");
  request["scale_rule"] = text("scale-rule");
  request["block"] = text("block");
  if (given.count("high")) request["high"] = given["high"].as<std::vector<std::string>>();
  return "";
}

void print_packed(const nlohmann::json& packed) {
  std::cout << fmt::format("NVFP4: {} matrices, relative error {:.2f} %\n", packed["matrices"].get<int64_t>(),
                           100 * packed["relative_error"].get<double>());
  const auto high = packed["high"].get<std::vector<std::string>>();
  if (!high.empty()) std::cout << fmt::format("left alone: {}\n", fmt::join(high, ", "));
}

void print_converted(const nlohmann::json& result) {
  std::cout << fmt::format("{}: {} tensors, {}\n", result["file"].get<std::string>(),
                           result["tensors"].get<int64_t>(),
                           core::format_size(result["bytes"].get<uint64_t>()));
  if (result["from"] != result["to"])
    std::cout << fmt::format("names: {} -> {}\n", result["from"].get<std::string>(),
                             result["to"].get<std::string>());
  if (result["merged"] != 0)
    std::cout << fmt::format("adapted: {} matrices\n", result["merged"].get<int64_t>());
  if (result.contains("packed")) print_packed(result["packed"]);
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
    std::cout << help_of(kConvertHelp, convert_flags());
    return kDone;
  }
  const auto text = [&](const char* name) { return given[name].as<std::string>(); };
  if (text("in").empty() || text("out").empty())
    return complain(kUsage, "convert: IN and OUT are required; see kinora convert --help");
  for (const char* name : {"in", "merge", "unmerge"}) {
    std::error_code unreadable;
    if (!text(name).empty() && !std::filesystem::exists(text(name), unreadable))
      return complain(kUsage,
                      fmt::format("convert: {}: no such file or folder; {}", text(name),
                                  std::string_view(name) == "in"
                                      ? "give a safetensors file, an index of shards or a folder of weights"
                                      : "give the file or folder of a LoRA adapter"));
  }
  if (!text("expert").empty() && std::ranges::find(kExperts, text("expert")) == kExperts.end())
    return complain(
        kUsage, fmt::format("unknown expert '{}'; experts: {}", text("expert"), fmt::join(kExperts, ", ")));
  nlohmann::json request;
  for (const char* name : {"in", "out", "from", "to", "dtype", "merge", "unmerge", "expert"})
    request[name] = text(name);
  if (const auto wrong = add_precision(given, request); !wrong.empty())
    return complain(kUsage, "convert: " + wrong);
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
  const auto result = core::tensors().convert(runtime, request);
  if (given.count("json")) {
    std::cout << result.dump() << "\n";
    return kDone;
  }
  print_converted(result);
  return kDone;
}

}  // namespace kinora
