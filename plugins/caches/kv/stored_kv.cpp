#include "plugins/caches/kv/stored_kv.hpp"

#include "kinora/cache.hpp"
#include "plugins/caches/kv/nvfp4.hpp"

namespace kinora {
namespace {

using Means = std::map<int64_t, Tensor>;
constexpr int64_t kTokenDim = 1;

KeptRows::Pair kept_with(KeptRows& rows, const SeenTokens& tokens, const Tensor& k, const Tensor& v) {
  return tokens.read_only ? rows.with(tokens.index, tokens.kept, k, v)
                          : rows.put(tokens.index, tokens.kept, k, v, tokens.room);
}

Tensor mean_over_tokens(const Tensor& k) {
  return k.to(KINORA_DTYPE_FLOAT32).mean({kTokenDim}, true).to(KINORA_DTYPE_BFLOAT16);
}

Tensor without(const Tensor& k, const Tensor& mean) {
  return k.to(KINORA_DTYPE_FLOAT32) - mean.to(KINORA_DTYPE_FLOAT32);
}

// Adds to the keys, in place, the means of their chunks, whose tokens are adjacent.
void add_means(const Tensor& k, const std::vector<int64_t>& chunks, const Means& means) {
  for (size_t first = 0, end = 0; first < chunks.size(); first = end) {
    while (end < chunks.size() && chunks[end] == chunks[first]) ++end;
    const auto n = static_cast<int64_t>(end - first);
    op("aten::add_", "Tensor",
       {k.narrow(kTokenDim, static_cast<int64_t>(first), n), means.at(chunks[first]).to(k.dtype())});
  }
}

// The keys or the values, in float64 or float32.
Tensor read(Store store, const Tensor& bytes, const Tensor& scales, const Tensor& like) {
  return store == Store::fp8 ? decoded({bytes, scales}, like.dtype()) : nvfp4_unpacked(bytes, like.size(3));
}

// What LongLive 2.0 sees: the stored tokens, and the forward's own keys and values as they are but for the keys' mean
// over the channels.
KeptRows::Pair as_longlive(const KeptRows::Pair& all, int64_t kept, const Tensor& k, const Tensor& v) {
  const Tensor own = k - k.mean({3}, true);
  if (kept == 0) return {own, v};
  const auto joined = [&](const Tensor& before, const Tensor& x) {
    return op("aten::cat", "", {std::vector<Tensor>{before.narrow(kTokenDim, 0, kept), x}, kTokenDim});
  };
  return {joined(all.k, own), joined(all.v, v)};
}

}  // namespace

Coding Coding::of(const std::string& store, const std::string& smooth) {
  const Coding out{store == "fp8"     ? Store::fp8
                   : store == "nvfp4" ? Store::nvfp4
                                      : Store::as_given,
                   smooth == "chunk"      ? Smooth::chunk
                   : smooth == "longlive" ? Smooth::longlive
                                          : Smooth::none};
  if (out.store == Store::as_given && out.smooth != Smooth::none)
    throw Error(KINORA_ERROR_INVALID,
                "smooth = \"" + smooth + "\" is for keys that are rounded; set store = \"fp8\" or \"nvfp4\"");
  return out;
}

StoredKv::Seen StoredKv::see(const Coding& how, const SeenTokens& tokens, const Tensor& k, const Tensor& v) {
  if (how.store == Store::as_given) return {kept_with(rows, tokens, k, v), {}};
  const Tensor mean = how.smooth == Smooth::chunk ? mean_over_tokens(k) : Tensor();
  const Tensor keys = mean.defined() ? without(k, mean) : k;
  Seen out;
  if (how.store == Store::fp8) {
    const Codes of_k = coded(keys), of_v = coded(v);
    out.kv = kept_with(rows, tokens, of_k.bytes, of_v.bytes);
    out.scales = kept_with(scales, tokens, of_k.scales, of_v.scales);
    if (how.smooth == Smooth::none) return out;
  } else {
    out.kv = kept_with(rows, tokens, nvfp4_packed(keys), nvfp4_packed(v));
  }
  const Tensor all_k = read(how.store, out.kv.k, out.scales.k, k);
  const Tensor all_v = read(how.store, out.kv.v, out.scales.v, v);
  if (mean.defined()) {
    Means seen{{tokens.chunks.back(), mean}};
    for (size_t i = 0; i < tokens.kept; ++i)
      if (i == 0 || tokens.chunks[i] != tokens.chunks[i - 1])
        seen.emplace(tokens.chunks[i], means.at(tokens.chunks[i]));
    add_means(all_k, tokens.chunks, seen);
    if (!tokens.read_only) means = std::move(seen);
  }
  const KeptRows::Pair kv{all_k.to(k.dtype()), all_v.to(v.dtype())};
  if (how.smooth != Smooth::longlive) return {kv, {}};
  return {as_longlive(kv, static_cast<int64_t>(tokens.kept), k, v), {}};
}

int64_t StoredKv::bytes() const {
  int64_t out = rows.bytes() + scales.bytes();
  for (const auto& [chunk, mean] : means) out += bytes_of(mean);
  return out;
}

}  // namespace kinora
