#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/suggest.hpp"
#include "core/io/atomic_file.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/network/network.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/lora.hpp"
#include "core/torch/weights/packing.hpp"
#include "core/torch/weights/published.hpp"
#include "core/torch/weights/weights_complaint.hpp"
#include "host/weights/choices.hpp"
#include "host/weights/packed_matrix.hpp"
#include "host/weights/published_classes.hpp"
#include "host/weights/safetensors_header.hpp"
#include "host/weights/weights.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// One tensor of the result.
struct Item {
  const SafeTensor* from = nullptr;
  std::string ours;  // its name in the component; without a component, the name in the file
  const Adapter::Pair* add = nullptr;
  const at::Tensor* difference = nullptr;
};
using Items = std::map<std::string, Item>;  // by the name in the result

bool is_finite(const at::Tensor& t) {
  return !t.is_floating_point() || t.to(at::kFloat).isfinite().all().item<bool>();
}

class Conversion {
 public:
  Conversion(const Component* component, const json& request)
      : request_(request), component_(component), out_(text("out")), source_(text("in")) {
    check_request();
    if (component_) source_ = published_part(source_, *component_->spec);
    file_.emplace(or_throw(Safetensors::open(source_)));
    for (const auto& file : file_->files()) require_as_listed(file);
    low_ = or_throw(low_weights_of(*file_));
    if (request.contains("precision")) packing_.emplace(with_low_weights(request));
  }

  json run() {
    choose_layouts();
    name_tensors();
    if (component_) check_names(names_of(parameters()));
    for (const char* way : {"merge", "unmerge"})
      if (!text(way).empty()) add_adapter(text(way), std::string(way) == "merge" ? 1 : -1);
    const fs::path made = is_file() ? write(out_) : write_folder();
    if (!not_finite_.empty())
      log_warn(
          "{}: {} of the written tensors have values that are not finite (NaN or Inf), the first of them "
          "'{}'",
          out_.string(), not_finite_.size(), not_finite_.front());
    if (!dropped_.empty())
      log_warn("{}: dropped, not parameters of the component: {}", source_.string(),
               fmt::join(dropped_, ", "));
    json out = {{"file", made.string()}, {"tensors", items_.size()}, {"bytes", bytes_},
                {"from", from_.name()},  {"to", to_.name()},         {"dropped", dropped_},
                {"merged", merged_}};
    if (packing_)
      out["packed"] = {{"matrices", packing_->matrices()},
                       {"high", packing_->high()},
                       {"relative_error", packing_->relative_error()}};
    return out;
  }

 private:
  // Matrices that were in few bits before, in a training or a file, become so again by the same rule and block,
  // and no others, unless the request says otherwise.
  json with_low_weights(json request) const {
    if (text("scale_rule").empty()) request["scale_rule"] = low_.scale_rule;
    if (text("block").empty()) request["block"] = low_.block;
    if (!request.contains("high") && !low_.names.empty()) request["low"] = low_.names;
    const auto& all = file_->tensors();
    if (request["scale_rule"] == "" && std::any_of(all.begin(), all.end(), [](auto& t) { return t.packed; }))
      raise(KINORA_ERROR_INVALID,
            "{} is in four bits already and does not say by which rule; another one would round its matrices "
            "again. Give --scale-rule and --block: files of compressed-tensors have static_6 and 1x16",
            source_.string());
    return request;
  }
  std::string text(const char* key) const { return request_.value(key, std::string()); }
  bool is_file() const { return out_.string().ends_with(".safetensors"); }

  void check_request() const {
    std::error_code ignored;
    if (fs::exists(out_, ignored) || fs::exists(out_.string() + ".index.json", ignored))
      raise(KINORA_ERROR_INVALID, "{} exists already; choose another name or remove it", out_.string());
    if (!component_ && !(text("from") + text("to")).empty())
      raise(KINORA_ERROR_INVALID,
            "--from and --to need --component ID, the component that the tensors belong to");
    if (!text("expert").empty() && (text("merge") + text("unmerge")).empty())
      raise(KINORA_ERROR_INVALID, "--expert is of an adapter: give --merge ADAPTER, or an adapter as IN");
    if (!component_ && fs::exists(source_ / "model_index.json", ignored))
      raise(KINORA_ERROR_INVALID, "{} is a whole pipeline; give --component ID, or one of its folders",
            source_.string());
    if (!component_ || component_->spec->kind == "model" || component_->spec->kind == "tokenizer") return;
    raise(KINORA_ERROR_INVALID, "{} has no weights; give a model or a tokenizer", component_->spec->id);
  }

  Parameters parameters() const {
    return parameters_of(
        *component_, or_throw(Options::make(*component_->spec, request_.at("options"), fs::current_path())));
  }

  void choose_layouts() {
    if (!component_) return;
    const auto expected = names_of(parameters());
    size_t fits = 0;
    from_ = text("from").empty() ? layout_of(*component_, file_->names(), expected, &fits)
                                 : layout_called(*component_, text("from"), expected);
    if (text("from").empty() && fits == 0)
      raise(KINORA_ERROR_INVALID,
            "{}: none of its {} names is a parameter of {} in any layout; give --from LAYOUT",
            source_.string(), file_->names().size(), component_->spec->id);
    to_ = text("to").empty() ? from_ : layout_called(*component_, text("to"), expected);
  }

  void check_names(const std::set<std::string>& expected) const {
    std::set<std::string> there;
    for (const auto& name : file_->names()) there.insert(from_.ours(name));
    there.erase("");
    WeightsProblems problems;
    std::set_difference(expected.begin(), expected.end(), there.begin(), there.end(),
                        std::back_inserter(problems.missing));
    std::set_difference(there.begin(), there.end(), expected.begin(), expected.end(),
                        std::back_inserter(problems.unexpected));
    std::erase_if(problems.unexpected,
                  [this](const std::string& name) { return may_be_ignored(*component_->spec, name); });
    if (const auto why = complaint(problems, {expected.begin(), expected.end()}); !why.empty())
      raise(KINORA_ERROR_INVALID, "{} does not fit {}: {}", source_.string(), component_->spec->id, why);
  }

  void name_tensors() {
    const bool same = from_.name() == to_.name();
    const auto named = renamed(*file_, [&](const std::string& name) {
      if (same) return name;
      const std::string ours = from_.ours(name);
      if (ours.empty()) dropped_.push_back(name);
      return ours.empty() ? ours : to_.theirs(ours);
    });
    for (const auto& [name, tensor] : named) items_[name] = {tensor, from_.ours(tensor->name)};
  }

  // The folder says which of a pipeline's two experts it is.
  AdapterOf network_of_adapter() const {
    if (!text("expert").empty()) return text("expert") == "low" ? AdapterOf::low : AdapterOf::high;
    if (component_ && std::string_view(published_stem(*component_->spec)) == "model")
      return AdapterOf::text_encoder;
    const fs::path folder = fs::is_directory(source_) ? source_ : source_.parent_path();
    const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
    std::error_code ignored;
    if (name == "transformer_2" || name == "low_noise_model") return AdapterOf::low;
    const bool is_high = name == "high_noise_model" ||
                         (name == "transformer" && fs::exists(folder / "../transformer_2", ignored));
    return is_high ? AdapterOf::high : AdapterOf::any;
  }

  void add_adapter(const fs::path& path, double sign) {
    adapters_.push_back(read_adapter(path, network_of_adapter()));
    Adapter& adapter = adapters_.back();
    std::map<std::string, Item*> items;
    std::set<std::string> parameters;
    for (auto& [name, item] : items_) items[item.ours] = &item, parameters.insert(item.ours);
    const std::vector<LoraScheme> same{[](const std::string& name) { return name; }};
    const auto ours = our_names(adapter.parameters(),
                                component_ ? lora_schemes(*component_, parameters) : same, parameters);
    WeightsProblems problems;
    const auto change = [&](const std::string& theirs, const std::vector<int64_t>& shape) -> Item* {
      const auto it = items.find(ours.at(theirs));
      if (it == items.end()) {
        problems.unexpected.push_back(theirs);
        return nullptr;
      }
      const SafeTensor& weight = *it->second->from;
      const uint64_t size = byte_size(shape, SafeDtype::i8).value_or(0);
      if (size == 0 || byte_size(weight.shape, SafeDtype::i8) != size || weight.shape[0] != shape[0])
        problems.shapes.push_back(fmt::format("'{}' is [{}] in the weights and [{}] in the adapter", theirs,
                                              fmt::join(weight.shape, ", "), fmt::join(shape, ", ")));
      if (it->second->add || it->second->difference)
        raise(KINORA_ERROR_INVALID, "'{}' would be changed by two adapters; merge one at a time", theirs);
      ++merged_;
      return it->second;
    };
    for (auto& [module, pair] : adapter.modules) {
      pair.scale *= sign;
      if (Item* item = change(module + ".weight", {pair.b.size(0), pair.a.numel() / pair.a.size(0)}))
        item->add = &pair;
    }
    for (auto& [name, difference] : adapter.differences) {
      if (sign < 0) difference = -difference;
      const bool has_pair =
          name.ends_with(".weight") && adapter.modules.contains(name.substr(0, name.size() - 7));
      if (has_pair)
        raise(KINORA_ERROR_INVALID, "{}: '{}' has both matrices and a whole difference", path.string(), name);
      if (Item* item = change(name, difference.sizes().vec())) item->difference = &difference;
    }
    if (const auto why = complaint(problems, {parameters.begin(), parameters.end()}); !why.empty())
      raise(KINORA_ERROR_INVALID, "{} does not fit {}: {}{}", path.string(), source_.string(), why,
            component_ ? "" : "; give --component ID to try its other names");
  }

  SafeDtype dtype_of(const SafeTensor& t) const {
    const std::string wanted = text("dtype");
    const bool real = t.dtype == SafeDtype::f16 || t.dtype == SafeDtype::bf16 || t.dtype == SafeDtype::f32 ||
                      t.dtype == SafeDtype::f64;
    if (wanted.empty() || !real) return t.dtype;
    if (wanted == "bf16") return SafeDtype::bf16;
    if (wanted == "fp16") return SafeDtype::f16;
    if (wanted == "fp32") return SafeDtype::f32;
    raise(KINORA_ERROR_INVALID, "unknown dtype '{}'{}", wanted,
          did_you_mean_or_list(wanted, kDtypeNames, "dtypes"));
  }

  // The values of a result, in the dtype that its header states.
  at::Tensor made(const Item& item, SafeDtype dtype) {
    const at::Tensor from = as_tensor(*file_, *item.from);
    at::Tensor t = from;
    if (item.add) {
      const auto change = Adapter::product(*item.add, t.scalar_type());
      t = t.to(change.scalar_type()).add(change.view(t.sizes()));
    }
    if (item.difference) {
      const auto exact = t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
      t = t.to(exact).add(item.difference->to(exact).view(t.sizes()));
    }
    t = t.to(torch_dtype(dtype)).contiguous();
    if (!is_finite(t)) note_not_finite(item, is_finite(from), dtype);
    return t;
  }

  // NaN and Inf stay where nothing changes them, and are said once; an adapter is not added to them.
  void note_not_finite(const Item& item, bool was_finite, SafeDtype dtype) {
    const std::string& name = item.from->name;
    if (item.add || item.difference)
      raise(KINORA_ERROR_DATA, "{}: tensor '{}' {}", source_.string(), name,
            was_finite
                ? fmt::format("plus the adapter is beyond the largest number of {}; give another --dtype",
                              name_of(dtype))
                : "has values that are not finite (NaN or Inf), to which no adapter can be added; download "
                  "it again");
    if (not_finite_.empty() || not_finite_.back() != name) not_finite_.push_back(name);
  }

  // The result's tensors without bytes; a matrix that becomes four bits is several of them.
  std::vector<SafeTensor> tensors() {
    std::vector<SafeTensor> out;
    for (const auto& [name, item] : items_) {
      const SafeTensor t{name, dtype_of(*item.from), item.from->shape, {}};
      if (!packing_ || !packing_->takes(t, item.from->name)) {
        out.push_back(t);
        continue;
      }
      for (auto& part : packing_->parts(t)) {
        whole_of_[part.name] = name;
        out.push_back(std::move(part));
      }
    }
    if (packing_) packing_->require_use();
    for (const auto& t : out) bytes_ += byte_size(t.shape, t.dtype).value_or(0);
    return out;
  }

  at::Tensor values(const SafeTensor& t) {
    const auto whole = whole_of_.find(t.name);
    if (whole == whole_of_.end()) return made(items_.at(t.name), t.dtype);
    return packing_->part(t.name, whole->second, made(items_.at(whole->second), SafeDtype::f32));
  }

  // The input's, with the matrices that are or were in few bits under their names in the result.
  SafeMetadata metadata() const {
    auto out = file_->metadata();
    out.erase(kQuantization);
    out.erase("_quantization_metadata");  // of weights in eight bits, which are decoded
    std::set<std::string> low;
    for (const auto& [part, whole] : whole_of_) low.insert(whole);
    for (const auto& [name, item] : items_)
      if (!packing_ && low_.names.contains(item.from->name)) low.insert(name);
    if (!low.empty()) out["low_weights"] = json(low).dump();
    if (packing_) {
      out[kQuantization] = packing_->config().dump();
      out["low_rule"] = packing_->rule().dump();
    } else if (!low_.scale_rule.empty()) {
      out["low_rule"] = json{{"scale_rule", low_.scale_rule}, {"block", low_.block}}.dump();
    }
    return out;
  }

  fs::path write(const fs::path& to, bool for_transformers = false) {
    const auto all = tensors();
    auto metadata = this->metadata();
    if (for_transformers)
      metadata.emplace("format", "pt");  // transformers and diffusers reject files without it
    at::Tensor current;
    const uint64_t given = request_.value("max_shard", uint64_t{0});
    const uint64_t most = given ? given : for_transformers ? kFolderShard : UINT64_MAX;
    return or_throw(write_safetensors_sharded(to, all, metadata, most, [&](const SafeTensor& t) {
      current = values(t);
      return std::span(static_cast<const std::byte*>(current.data_ptr()), current.nbytes());
    }));
  }

  // The configuration of the source, with what its readers must know about matrices in four bits.
  void write_config(const fs::path& to) const {
    const fs::path from = (fs::is_directory(source_) ? source_ : source_.parent_path()) / "config.json";
    const json there = object_in_file(from);
    if (!packing_ && !there.contains(kQuantization)) {
      if (fs::exists(from)) fs::copy_file(from, to);
      return;
    }
    json out = there;
    out.erase(kQuantization);
    if (packing_) out[kQuantization] = packing_->config();
    or_throw(write_file_atomically(to, out.dump(2) + "\n"));
  }

  fs::path write_folder() {
    auto folder = or_throw(AtomicFolder::create(out_));
    const bool reads_text = component_ && std::string_view(published_stem(*component_->spec)) == "model";
    const fs::path made =
        write(folder.temporary() / (reads_text ? "model.safetensors" : "diffusion_pytorch_model.safetensors"),
              true);
    write_config(folder.temporary() / "config.json");
    const auto name = made.filename();
    or_throw(folder.commit());
    return out_ / name;
  }

  static constexpr const char* kQuantization = "quantization_config";
  static constexpr uint64_t kFolderShard = 10'000'000'000;  // the limit of diffusers
  const json& request_;
  const Component* component_;
  fs::path out_, source_;
  std::optional<Safetensors> file_;
  LowWeights low_;
  Layout from_, to_;
  Items items_;
  std::optional<Packing> packing_;
  std::map<std::string, std::string> whole_of_;  // by the name of a part: that of its matrix
  std::vector<std::string> dropped_, not_finite_;
  std::deque<Adapter> adapters_;  // items point into it
  int64_t merged_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

json convert_weights(const Component* component, const json& request) {
  return Conversion(component, request).run();
}

json convert_weights(Runtime& runtime, const json& request) {
  if (is_adapter(request.value("in", std::string()))) return convert_adapter(runtime, request);
  const std::string id = request.value("component", std::string());
  if (id.empty()) return convert_weights(nullptr, request);
  const Component component = or_throw(runtime.registry().open(id));
  return convert_weights(&component, request);
}

}  // namespace kinora::core
