#include "plugins/jobs/published/checkpoint_facts.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

struct Size {
  const char* name;
  int64_t width, blocks, channels;
};
// The sizes of model/wan's option size.
constexpr Size kSizes[] = {
    {"1.3B", 1536, 30, 16}, {"5B", 3072, 30, 48}, {"14B", 5120, 40, 16}, {"I2V-14B", 5120, 40, 36}};

// A tensor's name: "generator.model.blocks.0.ffn.0.weight" is of part "generator", wrapped, "blocks.0.ffn.0.weight".
struct Name {
  std::string part, rest;
  bool is_comfyui = false;
  bool is_wrapped = false;  // by the class that LongLive and Self-Forcing put around Wan: "model."
};

bool take(std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.erase(0, prefix.size());
  return true;
}

Name name_in(std::string name) {
  for (const std::string_view wrapper :
       {"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod."})
    for (size_t at = 0; (at = name.find(wrapper, at)) != name.npos;) name.erase(at, wrapper.size());
  Name out;
  for (const char* part : {"generator", "generator_ema", "generator_lora", "critic", "critic_lora"})
    if (take(name, std::string(part) + ".")) {
      out.part = part;
      break;
    }
  take(name, "base_model.model.");
  out.is_comfyui = take(name, "model.diffusion_model.");
  if (!out.is_comfyui && !take(name, "diffusion_model.") && !take(name, "transformer."))
    while (take(name, "model.")) out.is_wrapped = true;
  out.rest = std::move(name);
  return out;
}

// "blocks.12.ffn.0.weight" is block 12's "ffn.0.weight"; -1: of no block.
std::pair<int64_t, std::string> block_of(const std::string& rest) {
  std::string inner = rest;
  if (!take(inner, "blocks.")) return {-1, rest};
  const size_t digits = std::min(inner.find_first_not_of("0123456789"), inner.size());
  if (digits == 0 || digits > 6 || digits == inner.size() || inner[digits] != '.') return {-1, rest};
  return {std::stoll(inner.substr(0, digits)), inner.substr(digits + 1)};
}

// Which half of an adapter's pair a name is, and the name without it.
char half_of(std::string& name) {
  for (const auto& [ending, half] : {std::pair{".lora_A.weight", 'A'},
                                     {".lora_B.weight", 'B'},
                                     {".lora_A.default.weight", 'A'},
                                     {".lora_B.default.weight", 'B'},
                                     {".lora_down.weight", 'A'},
                                     {".lora_up.weight", 'B'},
                                     {".alpha", 'a'}})
    if (name.ends_with(ending)) {
      name.resize(name.size() - std::string_view(ending).size());
      return half;
    }
  return 0;
}

// Facts that the tensors give together.
struct Seen {
  std::set<std::string> parts;
  std::set<int64_t> blocks, ranks;
  std::set<std::string> modules;  // of an adapter
  int64_t width = 0, channels = 0, four_bits = 0;
  bool authors = false, diffusers = false, wrapped = false, comfyui = false;
  json alpha;
  std::string problem;

  void add(const SafeTensor& t);
  bool is_adapter() const { return !modules.empty(); }
  const Size* size() const;
  const char* layout() const;  // of model/wan
};

void Seen::add(const SafeTensor& t) {
  Name name = name_in(t.name);
  const char half = half_of(name.rest);
  const auto [block, inner] = block_of(name.rest);
  if (name.rest.ends_with("._extra_state") && problem.empty())
    problem = "'" + t.name +
              "' is the state of a TransformerEngine module, which neither LongLive nor Kinora reads; export "
              "again with LongLive's --backend transformer_engine (bf16) or fouroversix (four bits)";
  const bool theirs = inner.starts_with("self_attn.q"), ours = inner.starts_with("attn1.to_q");
  if (block >= 0) blocks.insert(block), authors |= theirs, diffusers |= ours;
  if (!name.part.empty()) parts.insert(name.part);
  wrapped |= name.is_wrapped, comfyui |= name.is_comfyui;
  four_bits += t.packed != nullptr;
  if (half == 'A' || half == 'B') modules.insert(name.part + "/" + name.rest);
  if (half == 'A' && !t.shape.empty()) ranks.insert(t.shape[0]);
  if (half == 'a' && t.dtype == SafeDtype::f32 && t.bytes.size() == sizeof(float)) {
    float value = 0;
    std::memcpy(&value, t.bytes.data(), sizeof value);
    alpha = value;
  }
  // The width is what a query's matrix, or half A of its pair, takes in.
  if ((theirs || ours) && t.shape.size() == 2 && (half == 'A' || half == 0)) width = t.shape[1];
  if (name.rest == "patch_embedding.weight" && t.shape.size() > 1) channels = t.shape[1];
}

const Size* Seen::size() const {
  for (const auto& s : kSizes)
    if (s.width == width && s.blocks == static_cast<int64_t>(blocks.size()) &&
        (channels == 0 || channels == s.channels))
      return &s;
  return nullptr;
}

const char* Seen::layout() const {
  if (diffusers) return "kinora";
  if (parts.contains("generator")) return "self-forcing";
  if (parts.contains("generator_ema")) return "self-forcing-ema";
  return comfyui ? "comfyui" : wrapped ? "longlive" : "original";
}

// The first of the keys that the metadata or one of its JSON objects has; null without one.
json said(const SafeMetadata& metadata, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const auto at = metadata.find(key); at != metadata.end()) {
      const json value = parse_facts(at->second);
      if (value.is_number_integer() || value.is_array()) return value;
    }
  return nullptr;
}

// Self-Forcing's name of a first chunk of one frame.
json first_chunk(const SafeMetadata& metadata) {
  const auto at = metadata.find("independent_first_frame");
  return at != metadata.end() && (at->second == "true" || at->second == "True") ? json(1) : json();
}

json alpha_beside(const SafeMetadata& metadata, const std::filesystem::path& folder) {
  const json config = object_in_file(folder / "adapter_config.json");
  if (config.contains("lora_alpha") && config["lora_alpha"].is_number()) return config["lora_alpha"];
  const json own = said(metadata, {"lora_alpha", "ss_network_alpha"});
  return own.is_number() ? own : json();
}

std::string family_of(const Seen& seen, const Size* size, const SafeMetadata& metadata) {
  const auto format = metadata.find("checkpoint_format");
  if (format != metadata.end() && format->second.starts_with("longlive_")) return "LongLive 2.0";
  const bool trained = seen.wrapped || seen.parts.contains("generator_lora");
  if (!size || !trained) return "Wan";
  return size->width == 3072   ? "LongLive 2.0"
         : size->width == 1536 ? seen.is_adapter() ? "LongLive 1" : "Self-Forcing or LongLive 1"
                               : "Self-Forcing's code";
}

}  // namespace

json checkpoint_facts(const std::vector<SafeTensor>& tensors, const SafeMetadata& metadata,
                      const std::filesystem::path& folder) {
  Seen seen;
  for (const auto& t : tensors) seen.add(t);
  if (!seen.authors && !seen.diffusers) return nullptr;
  const Size* size = seen.size();
  json out = {{"component", "model/wan"},
              {"kind", seen.is_adapter() ? "adapter" : "weights"},
              {"holds", seen.parts},
              {"names", seen.layout()},
              {"size", size ? size->name : ""},
              {"blocks", seen.blocks.size()},
              {"width", seen.width},
              {"family", family_of(seen, size, metadata)},
              {"four_bits", seen.four_bits},
              {"chunk", said(metadata, {"num_frame_per_block", "chunk"})},
              {"first_chunk", first_chunk(metadata)},
              {"steps", said(metadata, {"denoising_step_list", "sampling_steps", "steps"})},
              {"training_step", said(metadata, {"step"})},
              {"problem", seen.problem}};
  const auto format = metadata.find("checkpoint_format");
  if (format != metadata.end() && format->second == "longlive_generator_te_nvfp4" && seen.problem.empty())
    out["problem"] =
        "its metadata's checkpoint_format is longlive_generator_te_nvfp4, the state of "
        "TransformerEngine's modules, which is not read";
  if (!seen.is_adapter()) return out;
  out["modules"] = seen.modules.size();
  out["rank"] = seen.ranks.size() == 1 ? json(*seen.ranks.begin()) : json(seen.ranks);
  out["alpha"] = seen.alpha.is_null() ? alpha_beside(metadata, folder) : seen.alpha;
  return out;
}

namespace {

// How the published checkpoints of a family are sampled by their configurations; the files do not say it.
std::string published_sampling(const std::string& family) {
  if (family == "LongLive 2.0")
    return "chunks of 8 frames, window 32 frames with sink 8, 4 steps (2 for those named S2) of UniPC, shift "
           "5";
  if (family.find("LongLive 1") != family.npos)
    return "chunks of 3 frames, steps 1000, 750, 500, 250 of flow-renoise, shift 5; LongLive 1: window 12 "
           "frames "
           "with sink 3";
  return "";
}

std::string sampling_text(const json& f) {
  std::string out;
  if (!f["chunk"].is_null()) out += fmt::format("  chunk {}\n", f["chunk"].dump());
  if (!f["first_chunk"].is_null()) out += "  first_chunk 1 (independent_first_frame)\n";
  if (!f["steps"].is_null()) out += fmt::format("  steps {}\n", f["steps"].dump());
  if (!f["training_step"].is_null()) out += fmt::format("  saved at step {}\n", f["training_step"].dump());
  const std::string published = published_sampling(f["family"]);
  if (f["chunk"].is_null() && f["steps"].is_null() && !published.empty())
    out += "  chunk and steps: not in the file; published with " + published + "\n";
  return out;
}

}  // namespace

std::string checkpoint_text(const json& f) {
  const std::string size = f["size"];
  std::string out = fmt::format("{} of {}, {}: {}", f["kind"] == "adapter" ? "an adapter (LoRA)" : "weights",
                                f["component"].get<std::string>(), f["family"].get<std::string>(),
                                size.empty() ? "no published size" : "size " + size);
  out += fmt::format(", {} blocks, width {}, names {}\n", f["blocks"].get<int64_t>(),
                     f["width"].get<int64_t>(), f["names"].get<std::string>());
  if (!f["holds"].empty())
    out += fmt::format("  holds {}\n", fmt::join(f["holds"].get<std::vector<std::string>>(), ", "));
  if (f["four_bits"] != 0) out += fmt::format("  {} matrices in four bits\n", f["four_bits"].get<int64_t>());
  if (f["kind"] == "adapter")
    out += fmt::format(
        "  {} modules of rank {}, alpha {}\n", f["modules"].get<int64_t>(), f["rank"].dump(),
        f["alpha"].is_null() ? "not in the file: the rank is taken (scale 1)" : f["alpha"].dump());
  out += sampling_text(f);
  const std::string problem = f["problem"];
  return problem.empty() ? out : out + "  not read: " + problem + "\n";
}

bool is_pickle(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return (ending == ".pt" || ending == ".pth" || ending == ".ckpt") && std::filesystem::is_regular_file(file);
}

std::string pickle_advice(const std::filesystem::path& file) {
  return fmt::format(
      "{0} is a pickle of torch.save, which is never read; convert it once: python -c \"import json, torch; "
      "from "
      "safetensors.torch import save_file; d = torch.load('{0}', weights_only=True); n = {{k: "
      "json.dumps(d[k]) "
      "for k in ('step',) if k in d}} | ({{'quantization_config': json.dumps(d['quantization'])}} if "
      "'quantization' in d else {{}}); d = next((d[k] for k in ('generator', 'generator_ema', "
      "'generator_lora', "
      "'model') if isinstance(d.get(k), dict)), d); save_file({{k: v.contiguous() for k, v in d.items() if "
      "torch.is_tensor(v)}}, 'model.safetensors', n)\"; it takes the first of these keys that is there",
      file.string());
}

}  // namespace kinora::core
