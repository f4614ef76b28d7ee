#include "plugins/jobs/training/error_bank.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

std::optional<ErrorRecycling> recycling_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  using R = ErrorRecycling;
  static const std::map<std::string, double R::*> shares{{"context", &R::context},
                                                         {"latent", &R::latent},
                                                         {"noise", &R::noise},
                                                         {"clean", &R::clean},
                                                         {"scale", &R::scale}};
  static const std::map<std::string, int64_t R::*> counts{
      {"start", &R::start}, {"buckets", &R::buckets}, {"entries", &R::entries}};
  const auto refuse = [](const std::string& what) {
    raise(
        KINORA_ERROR_INVALID,
        "error_recycling: {}; it is a table of context, latent, noise, clean and scale, numbers from 0 to 1, "
        "and start, buckets and entries, whole numbers",
        what);
  };
  const json given = json::parse(text, nullptr, false);
  if (!given.is_object()) refuse(text + " is no table");
  R out;
  for (const auto& [name, value] : given.items()) {
    const auto share = shares.find(name);
    const auto count = counts.find(name);
    if (share != shares.end() && value.is_number() && value >= 0 && value <= 1)
      out.*share->second = value;
    else if (count != counts.end() && value.is_number_integer() && value >= (name == "start" ? 0 : 1))
      out.*count->second = value;
    else
      refuse(fmt::format("'{}' = {} is unknown or out of range", name, value.dump()));
  }
  if (out.entries < out.buckets)
    refuse(
        fmt::format("entries = {} are fewer than one for each of the {} buckets", out.entries, out.buckets));
  return out;
}

std::optional<ErrorRecycling> recycling_of(const TrainOptions& o, const LossInstance& loss, size_t sizes,
                                           int64_t stages) {
  auto out = recycling_of(o.error_recycling);
  if (!out) return out;
  if (!o.teacher_forcing)
    raise(KINORA_ERROR_INVALID,
          "error_recycling is for chunks that learn from those before them; add teacher_forcing = true");
  if (loss.mix() != KINORA_MIX_RECTIFIED_FLOW)
    raise(KINORA_ERROR_INVALID,
          "error_recycling needs a loss that blends latent and noise, such as flow; {} adds noise",
          loss.spec().id);
  if (sizes > 1)
    raise(KINORA_ERROR_INVALID,
          "error_recycling stores errors of one size; leave it out, or remove `sizes` from the encode job");
  if (stages > 1)
    raise(KINORA_ERROR_UNSUPPORTED,
          "error_recycling needs the predictions on every rank, and with pp the last stage alone has them; "
          "choose another strategy, or leave error_recycling out");
  return out;
}

// The uniform numbers of a sample.
class ErrorBank::Draws {
 public:
  Draws(uint64_t seed, int64_t sample, int64_t chunks)
      : all_(sample_uniform({1, kOfSample + kOfChunk * chunks}, seed, sample, "train.error-recycling")) {}
  double clean() const { return at(0); }
  double kept() const { return at(1); }
  // 0: context, 1: latent, 2: noise.
  double use(int64_t of) const { return at(2 + of); }
  double entry(int64_t chunk, int64_t of) const { return at(kOfSample + kOfChunk * chunk + 2 * of); }
  double scale(int64_t chunk, int64_t of) const { return at(kOfSample + kOfChunk * chunk + 2 * of + 1); }
  double replaced(int64_t chunk) const { return at(kOfSample + kOfChunk * chunk + 6); }

 private:
  static constexpr int64_t kOfSample = 5, kOfChunk = 7;
  double at(int64_t i) const { return all_.const_data_ptr<double>()[i]; }
  at::Tensor all_;
};

namespace {

constexpr double kKeptOfClean = 0.1;  // LongLive's clean_buffer_update_prob

size_t place_of(double u, size_t count) {
  return std::min(count - 1, static_cast<size_t>(u * static_cast<double>(count)));
}

// One of all; null: there is none.
const at::Tensor* one_of(const std::vector<const std::vector<at::Tensor>*>& lists, double u) {
  size_t count = 0;
  for (const auto* list : lists) count += list->size();
  if (count == 0) return nullptr;
  size_t i = place_of(u, count);
  for (const auto* list : lists) {
    if (i < list->size()) return &(*list)[i];
    i -= list->size();
  }
  return nullptr;
}

}  // namespace

int64_t ErrorBank::bucket_of(double level) const {
  return std::clamp<int64_t>(static_cast<int64_t>(level * static_cast<double>(how_.buckets)), 0,
                             how_.buckets - 1);
}

ErrorBank::Injected ErrorBank::injected(const at::Tensor& latent, const at::Tensor& noise,
                                        const at::Tensor& levels, const std::vector<int64_t>& samples,
                                        int64_t step) const {
  const int64_t T = latent.size(2);
  const at::Tensor told =
      levels.to(at::kCPU, at::kDouble).view({latent.size(0), -1}).expand({-1, T}).contiguous();
  if (step < how_.start || positions_.empty()) return {{latent, latent, {}}, noise, told};
  at::Tensor changed[3] = {latent.clone(), latent.clone(), noise.clone()};
  const double shares[3] = {how_.context, how_.latent, how_.noise};
  for (size_t b = 0; b < samples.size(); ++b) {
    const Draws draws(seed_, samples[b], chunks(T));
    if (draws.clean() < how_.clean) continue;
    for (int64_t p = 0; p < static_cast<int64_t>(positions_.size()); ++p) {
      const auto& of_position = positions_[static_cast<size_t>(p)];
      const auto level = told.const_data_ptr<double>()[static_cast<int64_t>(b) * T + lengths_.begin(p)];
      std::vector<const Bucket*> any, same{&of_position[static_cast<size_t>(bucket_of(level))]};
      for (const auto& bucket : of_position) any.push_back(&bucket);
      for (int64_t of = 0; of < 3; ++of) {
        if (draws.use(of) >= shares[of]) continue;
        const at::Tensor* error = one_of(of == 0 ? any : same, draws.entry(p, of));
        if (!error) continue;
        const at::Tensor to =
            changed[of][static_cast<int64_t>(b)].narrow(1, lengths_.begin(p), frames_of(p, T));
        to.add_((*error)[of == 2 ? 1 : 0].to(to.options()), 1 + how_.scale * (2 * draws.scale(p, of) - 1));
      }
    }
  }
  return {{changed[0], changed[1], {}}, changed[2], told};
}

void ErrorBank::note(const at::Tensor& latent, const Injected& made, const std::vector<int64_t>& samples,
                     int64_t step) {
  const at::NoGradGuard off;
  const at::Tensor x0 = latent.to(at::kDouble), n = made.noise.to(at::kDouble),
                   v = made.streams.prediction.to(at::kDouble),
                   s = made.levels.to(x0.device()).view({x0.size(0), 1, x0.size(2), 1, 1}),
                   x = (1 - s) * made.streams.latent.to(at::kDouble) + s * n;
  const at::Tensor errors = at::stack({x - s * v - x0, (1 - s) * (v - (n - x0))}, 1);
  for (size_t b = 0; b < samples.size(); ++b) {
    const Draws draws(seed_, samples[b], chunks(x0.size(2)));
    if (step >= how_.start && draws.clean() < how_.clean && draws.kept() >= kKeptOfClean) continue;
    const auto row = static_cast<int64_t>(b);
    if (!at::isfinite(errors[row]).all().item<bool>()) continue;
    noted_[samples[b]] = {errors[row].to(at::kCPU, at::kBFloat16), made.levels[row]};
  }
}

// Each rank gives the shape of an error, the number and levels of its samples, and their errors' bytes.
void ErrorBank::store(const Exchange& data_ranks) {
  std::vector<at::Tensor> facts{at::empty({0}, at::kDouble)}, bytes{at::empty({0}, at::kByte)};
  std::vector<int64_t> shape;
  for (const auto& [sample, noted] : noted_) {
    shape = noted.errors.sizes().vec();
    facts.push_back(at::cat({at::full({1}, sample, at::kDouble), noted.levels}));
    bytes.push_back(noted.errors.contiguous().view(at::kByte).flatten());
  }
  noted_.clear();
  const auto shapes = data_ranks.gather(at::tensor(shape, at::kLong));
  const auto all_facts = data_ranks.gather(at::cat(facts)), all_bytes = data_ranks.gather(at::cat(bytes));
  std::map<int64_t, Noted> all;
  for (size_t rank = 0; rank < shapes.size(); ++rank) {
    if (shapes[rank].numel() == 0) continue;
    std::vector<int64_t> its(shapes[rank].const_data_ptr<int64_t>(),
                             shapes[rank].const_data_ptr<int64_t>() + shapes[rank].numel());
    const at::Tensor rows = all_facts[rank].view({-1, its[2] + 1});
    its.insert(its.begin(), rows.size(0));
    const at::Tensor errors = all_bytes[rank].contiguous().view(at::kBFloat16).view(its);
    for (int64_t i = 0; i < rows.size(0); ++i)
      all[rows[i][0].item<int64_t>()] = {errors[i], rows[i].narrow(0, 1, its[3])};
  }
  for (const auto& [sample, noted] : all) store(sample, noted);
}

void ErrorBank::store(int64_t sample, const Noted& noted) {
  const int64_t T = noted.errors.size(2);
  positions_.resize(static_cast<size_t>(chunks(T)), std::vector<Bucket>(static_cast<size_t>(how_.buckets)));
  const Draws draws(seed_, sample, chunks(T));
  for (int64_t p = 0; p < chunks(T); ++p) {
    const double level = noted.levels[lengths_.begin(p)].item<double>();
    Bucket& bucket = positions_[static_cast<size_t>(p)][static_cast<size_t>(bucket_of(level))];
    at::Tensor own = noted.errors.narrow(2, lengths_.begin(p), frames_of(p, T)).clone();
    if (static_cast<int64_t>(bucket.size()) < how_.entries / how_.buckets)
      bucket.push_back(std::move(own));
    else
      bucket[place_of(draws.replaced(p), bucket.size())] = std::move(own);
  }
}

int64_t ErrorBank::size() const {
  size_t out = 0;
  for (const auto& position : positions_)
    for (const auto& bucket : position) out += bucket.size();
  return static_cast<int64_t>(out);
}

NamedTensors ErrorBank::state() const {
  NamedTensors out;
  for (size_t p = 0; p < positions_.size(); ++p) {
    std::vector<at::Tensor> errors;
    std::vector<int64_t> buckets;
    for (size_t i = 0; i < positions_[p].size(); ++i)
      for (const auto& error : positions_[p][i]) {
        errors.push_back(error);
        buckets.push_back(static_cast<int64_t>(i));
      }
    if (errors.empty()) continue;
    out[fmt::format("errors.{}", p)] = at::stack(errors);
    out[fmt::format("buckets.{}", p)] = at::tensor(buckets, at::kLong);
  }
  return out;
}

void ErrorBank::restore(const NamedTensors& state) {
  positions_.clear();
  for (int64_t p = 0; state.count(fmt::format("errors.{}", p)) != 0; ++p) {
    const at::Tensor errors = state.at(fmt::format("errors.{}", p)),
                     buckets = state.at(fmt::format("buckets.{}", p));
    auto& position = positions_.emplace_back(static_cast<size_t>(how_.buckets));
    for (int64_t i = 0; i < errors.size(0); ++i)
      position.at(static_cast<size_t>(buckets[i].item<int64_t>())).push_back(errors[i].clone());
  }
}

}  // namespace kinora::core
