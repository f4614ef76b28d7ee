#include "core/torch/network.hpp"

#include "core/plugin/host.hpp"
#include "core/torch/safe_tensors.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

// The run's rule, and what the model says of itself.
ChainOptions with_model(ChainOptions chain, const Component& component) {
  if (component.spec->kind == "model" && component.table<kinora_model>().sees == KINORA_SEES_BEFORE)
    chain.frames.before = true;
  return chain;
}

}  // namespace

Network::Network(const Component& component, const Options& options, const ChainOptions& chain,
                 std::vector<const kinora_link*> links)
    : component_(component), chain_(with_model(chain, component), std::move(links)) {
  self_ = made(is_model() ? model().create(host(), options.abi(), chain_.head())
                          : tokenizer().create(host(), options.abi(), chain_.head()),
               component.spec->id);
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

void Network::load(const std::filesystem::path& weights, bool more_is_fine) {
  const Safetensors file = or_throw(Safetensors::open(weights));
  try {
    load_values(chain_.parameters(), chain_.leaves(), file.names(), find_in(file),
                {.allow_unexpected = more_is_fine});
  } catch (const Error& e) {
    throw Error(e.code(), weights.string() + " does not fit " + component_.spec->id + ": " + e.what());
  }
}

std::vector<at::Tensor> Network::forward(const NamedTensors& in) {
  std::vector<kinora_named> named;
  for (const auto& [name, tensor] : in)
    if (tensor.defined()) named.push_back({name.c_str(), handle(tensor)});
  std::vector<kinora_tensor> out(component_.spec->outputs.size(), nullptr);
  called(model().forward(self_, chain_.head(), named.data(), named.size(), out.data(), out.size()),
         component_.spec->id);
  std::vector<at::Tensor> made;
  for (auto h : out) made.push_back(adopt<at::Tensor>(h));
  for (size_t i = 0; i < made.size(); ++i)
    if (!made[i].defined())
      throw Error(KINORA_FAILED,
                  component_.spec->id + ": forward returned no '" + component_.spec->outputs[i].name + "'");
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
  if (!latent) throw Error(KINORA_FAILED, component_.spec->id + ": encode returned no latent");
  at::Tensor kept = adopt<at::Tensor>(moments);
  if (posterior) *posterior = std::move(kept);
  return adopt<at::Tensor>(latent);
}

at::Tensor Network::decode(const at::Tensor& latent) {
  kinora_tensor video = nullptr;
  called(tokenizer().decode(self_, chain_.head(), handle(latent), &video), component_.spec->id);
  if (!video) throw Error(KINORA_FAILED, component_.spec->id + ": decode returned no video");
  return adopt<at::Tensor>(video);
}

}  // namespace kinora::core
