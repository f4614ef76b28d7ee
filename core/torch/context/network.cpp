#include "core/torch/context/network.hpp"

#include <set>

#include "core/base/log.hpp"
#include "core/plugin/host.hpp"
#include "core/run/published_classes.hpp"
#include "core/run/weights.hpp"
#include "core/torch/context/fitting.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/lora_names.hpp"
#include "core/torch/weights/published.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

// Combines the run's rule with what the model declares about itself. The modules of an adapter's file get the
// component's own names, of which it asks a network without an adapter.
ChainOptions with_model(ChainOptions chain, const Component& component, const Options& options) {
  if (component.spec->kind == "model" && component.table<kinora_model>().sees == KINORA_SEES_CAUSAL)
    chain.frames.before = true;
  if (!chain.lora || !chain.lora->of_file) return chain;
  const Network plain(component, options, ChainOptions{.device = at::kMeta});
  std::vector<std::string> weights;
  for (const auto& module : chain.lora->targets) weights.push_back(module + ".weight");
  const auto ours = plain.names_of_adapter(weights);
  for (auto& module : chain.lora->targets)
    if (const auto name = module_of(ours.at(module + ".weight")); !name.empty()) module = name;
  chain.lora->of_file = false;
  return chain;
}

}  // namespace

Network::Network(const Component& component, const Options& options, const ChainOptions& chain,
                 std::vector<const kinora_link*> links)
    : component_(component),
      options_(options.values()),
      chain_(with_model(chain, component, options), std::move(links)) {
  const auto create = is_model() ? model().create : tokenizer().create;
  self_ = made([&] { return create(host(), options.abi(), chain_.head()); }, component.spec->id);
  chain_.ready();
}

Network::~Network() {
  if (self_) is_model() ? model().destroy(self_) : tokenizer().destroy(self_);
}

int64_t Network::numel() const {
  int64_t n = 0;
  for (const auto& p : chain_.parameters()) n += p.numel();
  return n;
}

void Network::load(const std::vector<std::filesystem::path>& weights) { load_or_compare(weights, {}); }
void Network::require_weights(const std::vector<std::filesystem::path>& weights) {
  load_or_compare(weights, {.compare_only = true});
}

void Network::load_or_compare(const std::vector<std::filesystem::path>& weights, LoadOptions how) {
  const PublishedWeights file(weights, component_, chain_.parameters());
  if (!how.compare_only) file.log_notes();
  if (chain_.lora()) how.may_miss = is_lora;
  how.may_ignore = [this](const std::string& name) { return may_be_ignored(*component_.spec, name); };
  std::string all;
  for (const auto& path : weights) all += (all.empty() ? "" : ", ") + path.string();
  try {
    const auto left =
        load_values(chain_.parameters(), chain_.leaves(), file.names(), file.find(), how).unexpected;
    if (!left.empty() && !how.compare_only)
      log_line(KINORA_LOG_DEBUG,
               fmt::format("{}: {} of {} tensors have no use in {}, the first of them '{}'", all, left.size(),
                           file.names().size(), component_.spec->id, left[0]));
  } catch (const Error& e) {
    const std::string cause = why_misfit(component_, options_, weights);
    throw Error(e.code(), all + (weights.size() == 1 ? " does" : " together do") + " not fit " +
                              component_.spec->id + ": " + (cause.empty() ? "" : cause + "; ") + e.what());
  }
}

std::map<std::string, std::string> Network::names_of_adapter(const std::vector<std::string>& theirs) const {
  std::set<std::string> parameters;
  for (const auto& p : chain_.parameters())
    if (!is_lora(p.name)) parameters.insert(p.name);
  return our_names(theirs, lora_schemes(component_, parameters), parameters);
}

void Network::load_adapter(const std::filesystem::path& path) {
  const bool reads_text = std::string_view(published_stem(*component_.spec)) == "model";
  const Adapter adapter = read_adapter(path, reads_text ? AdapterOf::text_encoder : AdapterOf::any);
  const auto ours = names_of_adapter(adapter.parameters());
  NamedTensors tensors;
  for (const auto& [module, pair] : adapter.modules) {
    const std::string known = module_of(ours.at(module + ".weight")), name = known.empty() ? module : known;
    tensors[lora_a(name)] = pair.a;
    tensors[lora_b(name)] = pair.b;
  }
  LoadOptions how;
  how.may_miss = [](const std::string& name) { return !is_lora(name); };
  try {
    load_values(chain_.parameters(), chain_.leaves(), tensors, how);
  } catch (const Error& e) {
    throw Error(e.code(), path.string() + " does not fit " + component_.spec->id + ": " + e.what());
  }
}

std::map<std::string, Adapter::Pair> Network::adapter(const Exchange& exchange) const {
  std::vector<at::Tensor> values;  // undefined for frozen leaves, which are not gathered
  for (const auto& leaf : chain_.leaves()) values.push_back(leaf.frozen ? at::Tensor() : leaf.tensor);
  auto out = adapter_pairs(assemble(chain_.parameters(), chain_.leaves(), values, exchange));
  for (auto& [module, pair] : out) pair.scale = chain_.lora()->scale();
  return out;
}

std::vector<at::Tensor> Network::forward(const NamedTensors& in) {
  std::vector<kinora_named> named;
  for (const auto& [name, tensor] : in)
    if (tensor.defined()) named.push_back({name.c_str(), handle(tensor)});
  std::vector<kinora_tensor> out(component_.spec->outputs.size(), nullptr);
  const int32_t status =
      model().forward(self_, chain_.head(), named.data(), named.size(), out.data(), out.size());
  if (status == KINORA_SIGNAL_STOP) throw Stop{};
  called(status, component_.spec->id);
  std::vector<at::Tensor> made;
  for (auto h : out) made.push_back(adopt<at::Tensor>(h));
  // The first is the output; the others may depend on options.
  if (!made.empty() && !made[0].defined())
    throw Error(KINORA_ERROR_FAILED,
                component_.spec->id + ": forward returned no '" + component_.spec->outputs[0].name + "'");
  return made;
}

kinora_tokenizer_info Network::info() {
  kinora_tokenizer_info out{};
  out.struct_size = sizeof out;
  called(tokenizer().info(self_, &out), component_.spec->id);
  return out;
}

at::Tensor Network::encode(const at::Tensor& video, at::Tensor* posterior) {
  kinora_tensor latent = nullptr, moments = nullptr;
  called(tokenizer().encode(self_, chain_.head(), handle(video), &latent, &moments), component_.spec->id);
  if (!latent) throw Error(KINORA_ERROR_FAILED, component_.spec->id + ": encode returned no latent");
  at::Tensor kept = adopt<at::Tensor>(moments);
  if (posterior) *posterior = std::move(kept);
  return adopt<at::Tensor>(latent);
}

at::Tensor Network::decode(const at::Tensor& latent) {
  kinora_tensor video = nullptr;
  called(tokenizer().decode(self_, chain_.head(), handle(latent), &video), component_.spec->id);
  if (!video) throw Error(KINORA_ERROR_FAILED, component_.spec->id + ": decode returned no video");
  return adopt<at::Tensor>(video);
}

std::unique_ptr<Network::Stream> Network::open_stream(bool decoding) {
  const auto& table = tokenizer();
  if (!table.open || info().decode_span == 0) return nullptr;
  void* stream = nullptr;
  const int32_t code = table.open(self_, chain_.head(), decoding ? 1 : 0, &stream);
  if (code == KINORA_ERROR_UNSUPPORTED) return nullptr;
  called(code, component_.spec->id);
  return std::make_unique<Stream>(table, stream, component_.spec->id);
}

at::Tensor Network::Stream::push(const at::Tensor& piece) {
  kinora_tensor out = nullptr;
  called(table_.push(stream_, handle(piece), &out), id_);
  if (!out) throw Error(KINORA_ERROR_FAILED, id_ + ": a stream's piece has no result");
  return adopt<at::Tensor>(out);
}

void Network::require_fit() const {
  const auto& table = tokenizer();
  if (!table.fit)
    raise(KINORA_ERROR_UNSUPPORTED, "{} begins at random only: it has no start in closed form",
          component_.spec->id);
}

void Network::fit(const at::Tensor& video) {
  require_fit();
  NamedTensors values;
  const auto take = [](void* to, const char* name, kinora_tensor value) {
    (*static_cast<NamedTensors*>(to))[name] = adopt<at::Tensor>(value);
  };
  called(tokenizer().fit(self_, chain_.head(), handle(video), &values, take), component_.spec->id);
  load_values(chain_.parameters(), chain_.leaves(), values, {.allow_missing = true});
}

}  // namespace kinora::core
