// Writes a LoRA adapter as another program reads it.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/base/suggest.hpp"
#include "core/io/atomic_file.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/network/network.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/lora.hpp"
#include "core/torch/weights/published.hpp"
#include "host/weights/choices.hpp"
#include "host/weights/published_classes.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// The parameters of all published sizes of a component: one of them may lack modules that another one has. A
// block's number does not matter (our_names).
std::set<std::string> all_parameters(const Component& component, const json& given) {
  std::vector<json> all{given};
  if (const auto* size = component.spec->option("size"); size && !given.contains("size"))
    for (const auto& name : size->choices) {
      all.push_back(given);
      all.back()["size"] = name;
    }
  std::set<std::string> out;
  for (const auto& options : all)
    out.merge(names_of(
        parameters_of(component, or_throw(Options::make(*component.spec, options, fs::current_path())))));
  return out;
}

// Where an adapter belongs: a component, and our names of its parameters.
struct Home {
  Component component;
  std::set<std::string> parameters;
  std::map<std::string, std::string> ours;  // "" for one that is not known
  size_t scheme = 0;                        // that of the adapter's names
  int64_t known() const {
    return std::count_if(ours.begin(), ours.end(), [](const auto& name) { return !name.second.empty(); });
  }
};

Home home_in(Runtime& runtime, const std::string& id, const json& options, const Adapter& adapter) {
  Home out{or_throw(runtime.registry().open(id)), {}, {}};
  out.parameters = all_parameters(out.component, options);
  out.ours = our_names(adapter.parameters(), lora_schemes(out.component, out.parameters), out.parameters,
                       &out.scheme);
  return out;
}

// Returns the published transformer that knows the most of the adapter's names.
Home home_of(Runtime& runtime, const json& request, const Adapter& adapter) {
  const json options = request.value("options", json::object());
  if (const auto id = request.value("component", std::string()); !id.empty())
    return home_in(runtime, id, options, adapter);
  std::optional<Home> best;
  for (const auto& [name, id] : published_classes()) {
    if (!name.ends_with("Transformer3DModel") || !runtime.registry().find(id)) continue;
    Home home = home_in(runtime, id, json::object(), adapter);
    if (!best || home.known() > best->known()) best.emplace(std::move(home));
  }
  if (!best || best->known() == 0)
    raise(
        KINORA_ERROR_INVALID,
        "{}: its modules, such as '{}', are of no published transformer that Kinora has; give --component ID",
        request.value("in", std::string()), adapter.parameters().at(0));
  return *std::move(best);
}

class AdapterConversion {
 public:
  AdapterConversion(Runtime& runtime, const json& request)
      : request_(request), in_(text("in")), out_(text("out")), adapter_(read_adapter(in_, network())) {
    std::error_code ignored;
    if (fs::exists(out_, ignored))
      raise(KINORA_ERROR_INVALID, "{} exists already; choose another name or remove it", out_.string());
    for (const char* option : {"merge", "unmerge", "precision", "from"})
      if (!text(option).empty())
        raise(KINORA_ERROR_INVALID,
              "{} is an adapter, which has no --{}; to merge it: kinora convert WEIGHTS OUT --merge {}",
              in_.string(), option, in_.string());
    home_.emplace(home_of(runtime, request, adapter_));
    check_known();
    for (auto& [module, pair] : adapter_.modules)
      pairs_[module_of(home_->ours.at(module + ".weight"))] = pair;
  }

  json run() {
    const std::string to = text("to");
    const fs::path made = to == "peft"        ? write_peft()
                          : to == "diffusers" ? write_diffusers()
                                              : write_comfyui(layout(to));
    return {{"file", made.string()},
            {"tensors", tensors_},
            {"bytes", fs::file_size(made)},
            {"from", scheme_name()},
            {"to", to},
            {"dropped", json::array()},
            {"merged", 0}};
  }

 private:
  std::string text(const char* key) const { return request_.value(key, std::string()); }
  AdapterOf network() const {
    const std::string expert = text("expert");
    return expert == "low" ? AdapterOf::low : expert == "high" ? AdapterOf::high : AdapterOf::any;
  }
  // The layout of the adapter's names: lora_schemes() has those that can be written.
  std::string scheme_name() const {
    size_t number = 0;
    for (const auto& layout : layouts_of(home_->component, home_->parameters))
      if (layout.is_written() && number++ == home_->scheme) return layout.name();
    return "";
  }

  void check_known() const {
    for (const auto& [theirs, ours] : home_->ours)
      if (ours.empty())
        raise(KINORA_ERROR_INVALID,
              "{}: '{}' is not a parameter of {} under any of its names; give --component ID", in_.string(),
              theirs, home_->component.spec->id);
  }

  at::Tensor in_dtype(const at::Tensor& t) const {
    const std::string wanted = text("dtype");
    if (wanted.empty()) return t;
    if (wanted == "bf16") return t.to(at::kBFloat16);
    if (wanted == "fp16") return t.to(at::kHalf);
    if (wanted == "fp32") return t.to(at::kFloat);
    raise(KINORA_ERROR_INVALID, "unknown dtype '{}'{}", wanted,
          did_you_mean_or_list(wanted, kDtypeNames, "dtypes"));
  }

  // The layout whose names ComfyUI uses: the authors'.
  Layout layout(const std::string& to) const {
    std::vector<std::string> authors, known = kAdapterForms;
    for (const auto& one : layouts_of(home_->component, home_->parameters)) {
      if (one.name() == "kinora" || !one.is_written()) continue;
      known.push_back(one.name());
      if (one.name() == to && to != "comfyui") return one;
      if (one.name() == "original" || one.name().starts_with("predict")) authors.push_back(one.name());
    }
    if (to.empty())
      raise(KINORA_ERROR_INVALID, "{} is an adapter; say who is to read it: --to diffusers, comfyui or peft",
            in_.string());
    if (to == "comfyui" && authors.size() == 1)
      return layout_called(home_->component, authors[0], home_->parameters);
    if (to == "comfyui" && !authors.empty())
      raise(KINORA_ERROR_INVALID,
            "ComfyUI has {} under several names; say which release the adapter is for: --to {}",
            home_->component.spec->id, fmt::join(authors, " or "));
    raise(KINORA_ERROR_INVALID, "unknown form '{}' of an adapter{}", to,
          did_you_mean_or_list(to, known, "forms"));
  }

  void require_no_differences(const char* reader) const {
    if (!adapter_.differences.empty())
      raise(KINORA_ERROR_UNSUPPORTED,
            "{}: holds whole differences of {} parameters, such as '{}', which {} does not read; write it "
            "for ComfyUI (--to "
            "comfyui), or merge it into the weights",
            in_.string(), adapter_.differences.size(), adapter_.differences.begin()->first, reader);
  }

  fs::path file_in_out(const char* name) const {
    return out_.extension() == ".safetensors" ? out_ : out_ / name;
  }

  fs::path write(const fs::path& file, const NamedTensors& tensors, SafeMetadata metadata) {
    metadata["format"] = "pt";
    tensors_ = tensors.size();
    fs::create_directories(file.has_parent_path() ? file.parent_path() : fs::path("."));
    write_tensors(file, tensors, metadata);
    return file;
  }

  fs::path write_peft() {
    require_no_differences("PEFT");
    if (out_.extension() == ".safetensors")
      raise(KINORA_ERROR_INVALID, "{}: PEFT reads a folder of two files; name a folder", out_.string());
    auto pairs = pairs_;
    for (auto& [module, pair] : pairs) pair.a = in_dtype(pair.a), pair.b = in_dtype(pair.b);
    write_adapter(out_, adapter_.options, pairs);
    tensors_ = 2 * pairs_.size();
    return out_ / "adapter_model.safetensors";
  }

  // Every scale is put into B, and alpha is the rank: so all versions of diffusers read it, also those that read no
  // header. Where that would round, B becomes float32.
  fs::path write_diffusers() {
    require_no_differences("diffusers");
    NamedTensors tensors;
    std::map<int64_t, int64_t> ranks;
    for (const auto& [module, pair] : pairs_) ++ranks[pair.a.size(0)];
    const auto more = [](const auto& a, const auto& b) { return a.second < b.second; };
    const int64_t rank = std::max_element(ranks.begin(), ranks.end(), more)->first;
    json patterns = json::object(), modules = json::array();
    for (const auto& [module, pair] : pairs_) {
      int exponent = 0;
      const bool exact = std::abs(std::frexp(pair.scale, &exponent)) == 0.5;
      const at::Tensor b = pair.scale == 1 ? pair.b : (exact ? pair.b : pair.b.to(at::kFloat)) * pair.scale;
      tensors["transformer." + lora_a(module)] = in_dtype(pair.a.to(b.scalar_type()));
      tensors["transformer." + lora_b(module)] = in_dtype(b);
      modules.push_back(module);
      if (pair.a.size(0) != rank) patterns[module] = pair.a.size(0);
    }
    const json config{{"transformer.r", rank},
                      {"transformer.lora_alpha", rank},
                      {"transformer.rank_pattern", patterns},
                      {"transformer.alpha_pattern", patterns},
                      {"transformer.target_modules", modules}};
    return write(file_in_out("pytorch_lora_weights.safetensors"), tensors,
                 {{"lora_adapter_metadata", config.dump()}});
  }

  fs::path write_comfyui(const Layout& layout) {
    const auto name_of = [&](const std::string& ours) {
      return "diffusion_model." + without_prefix(layout.theirs(ours));
    };
    NamedTensors tensors;
    for (const auto& [module, pair] : pairs_) {
      const std::string name = module_of(name_of(module + ".weight"));
      tensors[lora_a(name)] = in_dtype(pair.a);
      tensors[lora_b(name)] = in_dtype(pair.b);
      tensors[name + ".alpha"] =
          at::tensor(pair.scale * static_cast<double>(pair.a.size(0)), at::kDouble).to(at::kFloat);
    }
    for (const auto& [theirs, t] : adapter_.differences) {
      const std::string name = name_of(home_->ours.at(theirs));
      const bool bias = name.ends_with(".bias"), weight = name.ends_with(".weight");
      tensors[bias ? name.substr(0, name.size() - 5) + ".diff_b"
                   : (weight ? module_of(name) : name) + ".diff"] = in_dtype(t);
    }
    return write(file_in_out("lora.safetensors"), tensors, {});
  }

  const json& request_;
  fs::path in_, out_;
  Adapter adapter_;
  std::optional<Home> home_;
  std::map<std::string, Adapter::Pair> pairs_;  // by our names
  size_t tensors_ = 0;
};

}  // namespace

json convert_adapter(Runtime& runtime, const json& request) {
  return AdapterConversion(runtime, request).run();
}

}  // namespace kinora::core
