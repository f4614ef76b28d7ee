// kinora apply ID [INPUT] [--inputs F.safetensors] [--method M] [--set k=v] [--out F] [--json]
#include <iostream>
#include <sstream>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "apps/command/surroundings.hpp"
#include "apps/kinora/command.hpp"
#include "core/runtime/tensor_service.hpp"
#include "host/apply/apply.hpp"

namespace kinora {
namespace {

namespace po = boost::program_options;

constexpr const char* kApplyHelp = R"(usage: kinora apply ID [INPUT] [options]

Runs one component alone on one input. A stage takes a video, a source a data set; a score of one video takes
that or tensors. Other components take tensors from a safetensors file, named after the component's arguments
(kinora plugins inspect ID), and return tensors. float64 stays float64.

examples:
  kinora apply stage/shots.adaptive video.mp4 --json
  kinora apply stage/clip.transcode video.mp4 --out clips/
  kinora apply tokenizer/cosmos --method encode --inputs x.safetensors --set weights=FOLDER --out z
  kinora apply model/dit --set layers=2 --inputs in.safetensors --method gradient --out grads
  kinora apply model/cosmos --set weights=Cosmos-1.0-Diffusion-7B-Text2World --inputs x.safetensors
  kinora apply source/webdataset shards/ --limit 10 --state at.bin     ten samples; run again: the next ten
  kinora apply sampler/edm-heun --inputs mixture.safetensors --set steps=20 --out samples --json
  kinora apply score/drift video.mp4 --set chunk=32 --json

)";

}  // namespace

Flags apply_flags() {
  po::options_description options("options");
  options.add_options()("inputs", po::value<std::string>()->default_value("")->value_name("FILE"),
                        "tensors by argument name")(
      "method", po::value<std::string>()->default_value("")->value_name("METHOD"),
      "encode, decode, encode_decode, gradient, quantize ...")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("k=v"),
      "an option of the component; weights=PATH; config=FILE.json, whose members are options; seed=N")(
      "out", po::value<std::string>()->default_value("")->value_name("PATH"),
      "file or folder for the results")(
      "limit", po::value<uint64_t>()->default_value(0, "all")->value_name("N"), "most samples of a source")(
      "part", po::value<std::string>()->default_value("0/1")->value_name("I/N"),
      "part of a source's samples, I from 0 to N - 1")(
      "state", po::value<std::string>()->default_value("")->value_name("FILE"),
      "file with the position in a source: the samples after it are given, and it is updated")(
      "json", "print the result as JSON")("help,h", "this text");
  return options;
}

namespace {

void assign(const std::string& text, const core::ComponentSpec& spec, core::ApplyRequest& request) {
  const auto [name, v, path] = parse_set(text);
  if (spec.option(name)) {
    request.options[name] = v;
  } else if (name == "weights") {
    if (!core::has_weights(spec))
      throw Error(KINORA_ERROR_INVALID,
                  "--set " + text + ": " + spec.id + " has no weights; models and tokenizers have");
    request.weights = path;
  } else if (name == "config") {
    request.config = path;
  } else if (name == "seed" && v.is_number_integer()) {
    request.seed = v;
  } else {
    request.options[name] = v;
  }
}

// Describes an argument that is missing or would have no effect; "" if there is none.
std::string misuse(const core::ComponentSpec& spec, const core::ApplyRequest& request) {
  const std::string lists = "; kinora plugins inspect " + spec.id + " lists the tensors";
  if (spec.kind == "stage") {
    if (request.input.empty()) return spec.id + " needs an input file: kinora apply " + spec.id + " FILE";
    if (std::filesystem::is_directory(request.input))
      return "'" + request.input + "' is a folder; apply takes one file, a curate job takes folders";
    if (!request.inputs.empty()) return spec.id + " takes a file instead of tensors; leave out --inputs";
    if (!request.method.empty()) return spec.id + " has no methods; leave out --method";
    return "";
  }
  if (spec.kind == "source") {
    if (request.input.empty()) return spec.id + " needs its data: kinora apply " + spec.id + " FOLDER";
    if (!request.inputs.empty()) return spec.id + " takes a data set instead of tensors; leave out --inputs";
    if (!request.method.empty()) return spec.id + " has no methods; leave out --method";
    return "";
  }
  if (core::apply_methods(spec).empty())
    return spec.id + ": a component of kind '" + spec.kind +
           "' cannot run alone; stages, sources, tokenizers, models, losses, samplers, scores and precisions "
           "can";
  if (takes_video(spec) && request.inputs.empty() && !request.input.empty())
    return std::filesystem::is_directory(request.input)
               ? "'" + request.input + "' is a folder; give one video"
               : "";
  if (request.inputs.empty())
    return spec.id + (takes_video(spec) ? " needs a video or" : " needs") + " --inputs FILE.safetensors" +
           lists;
  if (!request.input.empty())
    return spec.id + " takes tensors instead of the file '" + request.input + "'; give them with --inputs" +
           lists;
  return "";
}

// "I/N" of --part.
core::SourcePart part_of(const std::string& text) {
  core::SourcePart part;
  char slash = 0;
  std::istringstream in(text);
  if (text.find_first_not_of("0123456789/") != text.npos || !(in >> part.shard >> slash >> part.shards) ||
      slash != '/' || in.peek() != std::char_traits<char>::eof() || part.shard >= part.shards)
    throw Error(KINORA_ERROR_INVALID, "--part " + text + ": write I/N with I from 0 to N - 1, such as 0/4");
  return part;
}

core::ApplyResult applied(core::Runtime& runtime, const core::ApplyRequest& request, const std::string& kind,
                          const po::variables_map& given) {
  if (kind == "stage") return apply_stage(runtime, request);
  if (kind != "source" && !request.input.empty()) return apply_to_video(runtime, request);
  if (kind != "source") return core::tensors().apply(runtime, request);
  return apply_source(runtime, request,
                      {part_of(given["part"].as<std::string>()), given["limit"].as<uint64_t>(),
                       given["state"].as<std::string>()});
}

}  // namespace

int apply_command(core::Runtime& runtime, const Arguments& arguments) {
  po::options_description all = apply_flags();
  all.add_options()("id", po::value<std::string>()->default_value(""))(
      "input", po::value<std::string>()->default_value(""));
  po::positional_options_description positional;
  positional.add("id", 1).add("input", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  if (given.count("help")) {
    std::cout << help_of(kApplyHelp, apply_flags());
    return kDone;
  }
  core::ApplyRequest request;
  request.id = given["id"].as<std::string>();
  request.input = given["input"].as<std::string>();
  request.inputs = given["inputs"].as<std::string>();
  request.method = given["method"].as<std::string>();
  request.out = given["out"].as<std::string>();
  if (request.id.empty())
    return complain(kUsage, "apply: a component is missing; see kinora plugins list and kinora apply --help");
  const auto spec = runtime.registry().find(request.id);
  if (!spec) return complain(kUsage, "apply: " + spec.failure().message);
  request.id = (*spec)->id;
  if (const auto why = misuse(**spec, request); !why.empty()) return complain(kUsage, "apply: " + why);
  for (const char* flag : {"limit", "part", "state"})
    if ((*spec)->kind != "source" && !given[flag].defaulted())
      return complain(kUsage, fmt::format("apply: --{} is for sources; {} is none", flag, request.id));
  if (given.count("set"))
    for (const auto& set : given["set"].as<std::vector<std::string>>()) assign(set, **spec, request);
  complete_options(runtime.registry(), **spec, request.config, request.weights, request.options);
  own_process();
  const auto result = applied(runtime, request, (*spec)->kind, given);
  // A stage's captions and keys may contain invalid UTF-8.
  std::cout << result.result.dump(given.count("json") ? -1 : 2, ' ', false,
                                  core::json::error_handler_t::replace)
            << "\n";
  std::cout.flush();  // before the messages on stderr
  return result.problem.empty() ? kDone : complain(kFailed, result.problem);
}

}  // namespace kinora
