#include "core/torch/context/network.hpp"

#include "core/base/log.hpp"
#include "core/plugin/host.hpp"
#include "core/run/weights.hpp"
#include "core/torch/context/fitting.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/published.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

// Combines the run's rule with what the model declares about itself.
ChainOptions with_model(ChainOptions chain, const Component& component) {
  if (component.spec->kind == "model" && component.table<kinora_model>().sees == KINORA_SEES_CAUSAL)
    chain.frames.before = true;
  return chain;
}

}  // namespace

Network::Network(const Component& component, const Options& options, const ChainOptions& chain,
                 std::vector<const kinora_link*> links)
    : component_(component),
      options_(options.values()),
      chain_(with_model(chain, component), std::move(links)) {
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
  if (std::string_view(published_stem(*component_.spec)) == "model") how.allow_unexpected = true;
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

void Network::load_adapter(const std::filesystem::path& path) {
  const Adapter adapter = read_adapter(path);
  std::vector<std::string> weights;
  for (const auto& [module, pair] : adapter.modules) weights.push_back(module + ".weight");
  const Layout layout = layout_of(component_, weights, names_of(chain_.parameters()));
  NamedTensors tensors;
  for (const auto& [module, pair] : adapter.modules) {
    const std::string ours = module_of(layout.ours(module + ".weight"));
    tensors[lora_a(ours)] = pair.a;
    tensors[lora_b(ours)] = pair.b;
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
  return adapter_pairs(assemble(chain_.parameters(), chain_.leaves(), values, exchange));
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
  load_values(chain_.parameters(), chain_.leaves(), values, {.allow_missing = true, .may_miss = {}});
}

}  // namespace kinora::core
