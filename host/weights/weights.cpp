#include "host/weights/weights.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/ranges.h>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/regular_file.hpp"
#include "core/base/suggest.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/contents.hpp"
#include "core/runtime/tensor_service.hpp"
#include "host/weights/published_classes.hpp"
#include "host/weights/safetensors.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

bool reads(const ComponentSpec& spec, const char* name) {
  return std::any_of(spec.inputs.begin(), spec.inputs.end(),
                     [&](const TensorSpec& t) { return t.name == name; });
}
bool reads_text(const ComponentSpec& spec) { return reads(spec, "input_ids"); }
bool reads_pictures(const ComponentSpec& spec) {
  return spec.kind == "model" && (reads(spec, "image") || reads(spec, "video")) && !reads(spec, "latent");
}

std::vector<const char*> parts_for(const ComponentSpec& spec) {
  if (spec.kind == "tokenizer") return {"vae"};
  if (reads_text(spec)) return {"text_encoder"};
  if (reads_pictures(spec)) return {"image_encoder"};
  return {"transformer", "unet"};
}

}  // namespace

std::vector<fs::path> archives_of(const fs::path& given) {
  const auto is_archive = [](const fs::path& file) {
    return file.extension() == ".jit" || file.extension() == ".pt" || file.extension() == ".pth";
  };
  std::error_code ignored;
  if (!fs::is_directory(given, ignored))
    return is_archive(given) ? std::vector{given} : std::vector<fs::path>();
  if (fs::exists(given / "encoder.jit", ignored)) return {given / "encoder.jit", given / "decoder.jit"};
  std::vector<fs::path> out;
  for (fs::directory_iterator it(given, ignored), end; it != end; it.increment(ignored)) {
    if (it->path().string().find(".safetensors") != std::string::npos) return {};
    if (is_archive(it->path())) out.push_back(it->path());
  }
  return out.size() == 1 ? out : std::vector<fs::path>();
}

const char* published_stem(const ComponentSpec& spec) {
  return reads_text(spec) || reads_pictures(spec) ? "model" : "diffusion_pytorch_model";
}

std::optional<PublishedExperts> published_experts(const fs::path& given, const ComponentSpec& spec) {
  std::error_code ignored;
  for (const char* part : parts_for(spec)) {
    PublishedExperts found{given / part, given / (std::string(part) + "_2"), 0};
    if (!fs::exists(given / "model_index.json", ignored) || !fs::is_directory(found.high, ignored) ||
        !fs::is_directory(found.low, ignored))
      continue;
    found.boundary = number_in(object_in_file(given / "model_index.json"), "boundary_ratio");
    return found;
  }
  return std::nullopt;
}

fs::path published_part(const fs::path& given, const ComponentSpec& spec) {
  std::error_code ignored;
  if (!fs::exists(given / "model_index.json", ignored)) return given;
  for (const char* part : parts_for(spec))
    if (fs::is_directory(given / part, ignored)) {
      if (published_experts(given, spec))
        throw Error(
            KINORA_ERROR_UNSUPPORTED,
            fmt::format(
                "{}: this pipeline has two experts, {} for high noise and {}_2 for low noise; name one "
                "of the two folders",
                given.string(), part, part));
      return given / part;
    }
  std::set<std::string> there;
  for (fs::directory_iterator it(given, ignored), end; it != end; it.increment(ignored))
    if (it->is_directory(ignored)) there.insert(it->path().filename().string());
  throw Error(
      KINORA_ERROR_NOT_FOUND,
      fmt::format("{}: this pipeline has no {} for {}; it has: {}; name the folder itself", given.string(),
                  fmt::join(parts_for(spec), " or "), spec.id, fmt::join(there, ", ")));
}

std::vector<fs::path> weights_files(const std::vector<fs::path>& given, const ComponentSpec& component) {
  std::vector<fs::path> out;
  for (const auto& path : given) {
    auto files = archives_of(path);
    if (files.empty()) files = or_throw(Safetensors::open(published_part(path, component))).files();
    out.insert(out.end(), files.begin(), files.end());
  }
  return out;
}

namespace {

json read_object(const fs::path& file) {
  const auto text = read_regular_file(file);
  if (!text)
    throw Error(KINORA_ERROR_NOT_FOUND, fmt::format("config={}; give a JSON file", text.failure().message));
  json out = parse_facts(*text);
  if (out.is_discarded())
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}: not valid JSON, or nested too deeply for a configuration; is the download "
                            "complete?",
                            file.string()));
  if (!out.is_object())
    throw Error(KINORA_ERROR_INVALID, fmt::format("{}: a configuration is a JSON object, found {}",
                                                  file.string(), found_text(out)));
  return out;
}

// Splits "LEFT MARK RIGHT"; right is empty without the mark.
std::pair<std::string, std::string> cut_at(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  if (at == text.npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + mark.size())};
}

json json_or_word(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(text) : value;
}

// The value at a path such as "vision_config.sizes[0]", or nullopt. has_table: whether only the last key is missing.
std::optional<json> value_at(const json& object, const std::string& path, bool& has_table) {
  json::json_pointer to;
  for (std::string rest = path; !rest.empty();) {
    const auto [key, after] = cut_at(rest, ".");
    const auto [name, index] = cut_at(key, "[");
    to /= name;
    if (!index.empty()) to /= cut_at(index, "]").first;
    rest = after;
  }
  has_table = object.contains(to.parent_pointer()) && object.at(to.parent_pointer()).is_object();
  return object.contains(to) ? std::optional<json>(object.at(to)) : std::nullopt;
}

// The value that one line of OptionSpec::config (manifest.hpp) yields; nullopt if the object lacks it.
std::optional<json> value_by(const json& object, const std::string& line) {
  const auto [tested, wanted] = cut_at(line, " == ");
  const auto [path, otherwise] = cut_at(tested, " ?? ");
  bool has_table = false;
  const auto found = value_at(object, path, has_table);
  if (!wanted.empty()) return found ? std::optional<json>(*found == json_or_word(wanted)) : std::nullopt;
  if (!found && has_table && !otherwise.empty()) return json_or_word(otherwise);
  return found;
}

// The value of the first line that yields one; true takes precedence over false.
std::optional<json> value_for(const json& object, const OptionSpec& option) {
  if (const auto own = object.find(option.name); own != object.end()) return *own;
  std::optional<json> out;
  for (const auto& line : option.config)
    if (const auto value = value_by(object, line); value && (!out || *out == false)) out = value;
  return out;
}

// The option's value for null, its form of "none". nullopt if it has none.
std::optional<json> none_of(const OptionSpec& option) {
  const json none = is_list(option.type)                       ? json::array()
                    : option.type == OptionType::boolean       ? json(false)
                    : option.default_value.is_string()         ? json("")
                    : option.default_value.is_number_integer() ? json(0)
                                                               : json(0.0);
  std::vector<Problem> problems;
  checked_value(option, none, "", problems);
  return problems.empty() ? std::optional<json>(none) : std::nullopt;
}

// The members of the object that the component's options can come from.
std::set<std::string> known_members(const ComponentSpec& spec) {
  std::set<std::string> out;
  for (const auto& option : spec.options) {
    out.insert(option.name);
    for (const auto& line : option.config) out.insert(line.substr(0, line.find_first_of(".[ ")));
  }
  return out;
}

// Members that diffusers and transformers write into every configuration and that change no output: training,
// bookkeeping, and parts that Kinora does not read.
const std::set<std::string>& harmless_members() {
  static const std::set<std::string> all{"architectures",
                                         "attention_dropout",
                                         "classifier_dropout",
                                         "controlnet_block_every_n",
                                         "decoder_start_token_id",
                                         "dense_act_fn",
                                         "dropout",
                                         "dropout_rate",
                                         "dtype",
                                         "eos_token_id",
                                         "gradient_checkpointing",
                                         "initializer_factor",
                                         "initializer_range",
                                         "is_decoder",
                                         "is_encoder_decoder",
                                         "is_gated_act",
                                         "model_type",
                                         "num_decoder_layers",
                                         "output_past",
                                         "pad_token_id",
                                         "quantization_config",
                                         "tie_word_embeddings",
                                         "torch_dtype",
                                         "transformers_version",
                                         "use_cache"};
  return all;
}

void log_ignored(const fs::path& file, const json& object, const ComponentSpec& spec) {
  const auto known = known_members(spec);
  std::string ignored, harmless;
  for (const auto& [name, value] : object.items()) {
    if (name.starts_with('_') || known.contains(name)) continue;
    const bool is_harmless = harmless_members().contains(name);
    const auto near = is_harmless ? "" : suggest(name, {known.begin(), known.end()});
    std::string& out = is_harmless ? harmless : ignored;
    out += (out.empty() ? "" : ", ") + name + (near.empty() ? "" : " (did you mean '" + near + "'?)");
  }
  const auto line = [&](int32_t level, const std::string& names) {
    if (!names.empty())
      log_line(level,
               fmt::format("{}: ignored, because {} has no such options: {}", file.string(), spec.id, names));
  };
  line(KINORA_LOG_INFO, ignored);
  line(KINORA_LOG_DEBUG, harmless);
}

// The config.json of a folder of weights; for a pipeline's folder, that of the part that fits the component.
// Empty: none.
fs::path config_in(const fs::path& given, const ComponentSpec& spec) {
  std::error_code ignored;
  if (!fs::is_directory(given, ignored)) return {};
  const auto experts = published_experts(given, spec);
  const auto file = (experts ? experts->high : published_part(given, spec)) / "config.json";
  return fs::exists(file, ignored) ? file : fs::path();
}

}  // namespace

fs::path config_of(const std::vector<fs::path>& weights, const ComponentSpec& spec) {
  for (const auto& path : weights)
    if (auto file = config_in(path, spec); !file.empty()) return file;
  return {};
}

json read_config(const fs::path& given, const ComponentSpec& spec, bool quiet) {
  const fs::path part = published_part(given, spec),
                 file = fs::is_directory(part) ? part / "config.json" : part;
  const json object = read_object(file);
  json out = json::object();
  std::vector<Problem> problems;
  for (const auto& option : spec.options) {
    auto value = value_for(object, option);
    if (value && value->is_null()) value = none_of(option);
    if (!value) continue;
    out[option.name] = checked_value(option, *value, spec.id, problems);
  }
  std::string text;
  for (const auto& p : problems) text += (text.empty() ? "" : "\n") + file.string() + ": " + p.message;
  if (!text.empty()) throw Error(KINORA_ERROR_INVALID, text);
  if (!quiet) log_ignored(file, object, spec);
  return out;
}

json with_config(const ComponentSpec& spec, json given, const fs::path& config) {
  if (config.empty()) return given;
  if (!given.is_object()) given = json::object();
  if (const auto size = given.find("size"); size != given.end() && spec.option("size") && *size != "") {
    log_info("{}: not read, because size = {} is given", config.string(), size->dump());
    return given;
  }
  const json found = read_config(config, spec);
  std::string differ;
  for (const auto& [name, value] : found.items()) {
    if (!given.contains(name))
      given[name] = value;
    else if (std::vector<Problem> of_options;
             checked_value(*spec.option(name), given[name], "", of_options) != value)
      differ += fmt::format("{}{} = {}, not {}", differ.empty() ? "" : ", ", name, given[name].dump(),
                            value.dump());
  }
  if (!differ.empty())
    log_info("{}: {}: the given options override it: {}", config.string(), spec.id, differ);
  return given;
}

json with_weights(Registry& registry, const ComponentSpec& spec, json given,
                  const std::vector<fs::path>& weights) {
  for (const auto& path : weights)
    if (const auto other = of_another_class(config_in(path, spec), spec); !other.empty())
      throw Error(KINORA_ERROR_INVALID, other);
  json out = with_config(spec, given, config_of(weights, spec));
  const auto* size = spec.option("size");
  const bool has_sizes = size && !size->choices.empty() && out.value("size", json("")) == "";
  const bool exist = std::all_of(weights.begin(), weights.end(), [](const fs::path& path) {
    std::error_code ignored;
    return fs::exists(file_or_index(path), ignored);
  });
  if (out != given || !has_sizes || weights.empty() || !exist) return out;
  const Component component = or_throw(registry.open(spec.id));
  const TensorService* tensors = tensors_if_offered();
  return tensors ? tensors->fitted(component, out, weights) : out;
}

namespace {

std::string remedy(const Listing& listed) {
  if (listed.job.empty()) return "copy it again, or take another checkpoint";
  std::error_code ignored;
  const fs::path checkpoints = listed.folder / "checkpoints";
  const std::string again = "remove it and run its job again: kinora run FILE --only " + listed.job;
  if (!fs::exists(checkpoints, ignored)) return again;
  return fmt::format("{}, which continues from its last checkpoint; or take a checkpoint in {}", again,
                     checkpoints.string());
}

// digest: gives the file's SHA-256; only called for a file of the listed size.
void require_listed(const fs::path& file, const std::function<std::string()>& digest) {
  const fs::path state = file.parent_path() / "state.json";
  if (std::error_code ignored;
      file.extension() == ".safetensors" && fs::exists(state, ignored) && object_in_file(state).empty())
    throw Error(KINORA_ERROR_DATA,
                state.string() +
                    ": not valid JSON, so nothing says whether the checkpoint's files are whole; "
                    "copy it again, or take another checkpoint");
  const auto listed = listing_of(file);
  if (!listed) return;
  std::string fault = fault_of(listed->folder, listed->file, /*with_digest=*/false);
  if (fault.empty() && digest() != listed->file.sha256)
    fault = listed->file.name + " is damaged: its SHA-256 is not that of what was written";
  if (!fault.empty())
    throw Error(KINORA_ERROR_DATA,
                fmt::format("{}: {}; {}", listed->folder.string(), fault, remedy(*listed)));
}

}  // namespace

void require_as_listed(const fs::path& file, const fs::path& kept) {
  require_listed(file, [&] {
    if (kept.empty()) return sha256_of_file(file);
    Contents contents(kept);
    std::string digest = contents.of_bytes(file);
    contents.save();
    return digest;
  });
}

void require_as_listed(const std::vector<fs::path>& given, const ComponentSpec& component,
                       const fs::path& kept) {
  for (const auto& file : weights_files(given, component)) require_as_listed(file, kept);
}

std::string weights_digest(const std::vector<fs::path>& files, const fs::path& kept) {
  Contents contents(kept);
  std::string lines;
  for (const auto& file : files) {
    const std::string digest = contents.of_bytes(file);
    require_listed(file, [&] { return digest; });
    lines += files.size() == 1 ? digest : digest + "  " + file.filename().string() + "\n";
  }
  contents.save();
  return "sha256:" + (files.size() == 1 ? lines : sha256(lines));
}

}  // namespace kinora::core
