#include "apps/validate/trial_samples.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "kinora/error.hpp"
#include "kinora/sample.hpp"

namespace kinora {
namespace trial {
namespace {

const kinora_samples_api& api() { return interface<kinora_samples_api>(KINORA_INTERFACE_SAMPLES); }

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

TrialTensor tensor_of(const core::TensorSpec& spec, std::mt19937_64& draw) {
  TrialTensor out{spec.name, trial_shape(spec.shape, {{'T', 4}}, 8), KINORA_DL_UINT, 8, {}};
  if (spec.dtype.starts_with("int")) out.code = KINORA_DL_INT, out.bits = spec.dtype == "int32" ? 32 : 64;
  if (spec.dtype.starts_with("float"))
    out.code = KINORA_DL_FLOAT, out.bits = spec.dtype == "float64" ? 64 : 32;
  const int64_t n = count_of(out.shape);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t whole = out.bits == 8 ? static_cast<int64_t>(draw() % 256) : 40000 * i;
    const double exact = static_cast<double>(draw() % 1000) / 1000;
    const auto single = static_cast<float>(exact);
    const void* from = out.code != KINORA_DL_FLOAT ? static_cast<const void*>(&whole)
                       : out.bits == 64            ? static_cast<const void*>(&exact)
                                                   : &single;
    out.bytes.append(static_cast<const char*>(from), out.bits / 8);  // little-endian
  }
  return out;
}

std::string file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(KINORA_ERROR_NOT_FOUND, "--input " + path + ": cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

// Owns a tensor's shape and bytes.
struct Owned {
  kinora_dl_managed managed{};
  TrialTensor of;
  std::vector<int64_t> shape;  // and strides
};

kinora_dl_managed* managed_of(const TrialTensor& t) {
  auto* out = new Owned{{}, t, shape_and_strides(t.shape)};
  out->managed.major = 1;
  out->managed.manager = out;
  out->managed.deleter = [](kinora_dl_managed* m) { delete static_cast<Owned*>(m->manager); };
  out->managed.tensor = {out->of.bytes.data(),
                         KINORA_DL_CPU,
                         0,
                         static_cast<int32_t>(t.shape.size()),
                         t.code,
                         t.bits,
                         1,
                         out->shape.data(),
                         out->shape.data() + t.shape.size(),
                         0};
  return &out->managed;
}

// The tensor `name` of the sample in a shape or type that it should not have.
std::vector<TrialTensor> hostile_tensors(const TrialTensor& usual) {
  std::vector<TrialTensor> out;
  const auto add = [&](std::vector<int64_t> shape, uint8_t code, uint8_t bits, char fill) {
    const auto n = static_cast<size_t>(count_of(shape));
    out.push_back({usual.name, std::move(shape), code, bits, std::string(n * bits / 8, fill)});
  };
  std::vector<int64_t> none = usual.shape;
  if (!none.empty()) none[0] = 0;
  add(none, usual.code, usual.bits, 0);           // empty
  add({}, usual.code, usual.bits, 1);             // zero-dimensional
  add({3}, usual.code, usual.bits, 1);            // another shape
  add(usual.shape, KINORA_DL_BFLOAT, 16, 1);      // bf16
  add(usual.shape, KINORA_DL_FLOAT, 32, '\xFF');  // NaN
  return out;
}

}  // namespace
}  // namespace trial

std::vector<int64_t> trial_shape(const std::string& text, const std::map<char, int64_t>& sizes,
                                 int64_t other) {
  std::vector<int64_t> out;
  for (size_t at = 0; at < text.size() && text[at] != ']'; ++at) {
    const char c = text[at];
    if (std::isdigit(static_cast<unsigned char>(c))) {
      size_t used = 0;
      out.push_back(std::stoll(text.substr(at), &used));
      at += used - 1;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || (c == '.' && text[at - 1] != '.')) {
      const auto found = sizes.find(c);
      out.push_back(found == sizes.end() ? other : found->second);
    }
  }
  return out;
}

std::vector<TrialSample> usual_samples(const PluginTrial& t, size_t n) {
  std::mt19937_64 draw(t.subject.seed);
  const std::string video = t.subject.input.empty() ? "" : trial::file(t.subject.input);
  const std::string type = std::filesystem::path(t.subject.input).extension().string();
  std::vector<TrialSample> out;
  for (size_t i = 0; i < n; ++i) {
    TrialSample s{"", fmt::format("clip-{:04d}", i), {}, {}};
    if (!video.empty()) {
      s.fields = {{"url", t.subject.input}, {type.size() > 1 ? type.substr(1) : "mp4", video}};
    }
    s.fields.emplace_back("txt", fmt::format("a dog runs along {} beaches", draw() % 1000));
    s.fields.emplace_back("json", R"({"film":"film-0000","fps":24.0,"frames":4,"width":8,"height":8,)"
                                  R"("duration":0.2,"frames_at":[0.0,0.05,0.1,0.15]})");
    for (const auto& spec : t.spec.inputs) s.tensors.push_back(trial::tensor_of(spec, draw));
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<TrialSample> hostile_samples(const PluginTrial& t) {
  const TrialSample usual = usual_samples(t, 1)[0];
  std::vector<TrialSample> out;
  out.push_back({"no field and no tensor", usual.key, {}, {}});
  const auto with = [&](const std::string& field, const std::string& value, const std::string& what) {
    TrialSample s = usual;
    s.what = "field '" + field + "' " + what;
    std::erase_if(s.fields, [&](const auto& f) { return f.first == field; });
    s.fields.emplace_back(field, value);
    out.push_back(std::move(s));
  };
  for (const char* field : {"txt", "json", "url", "mp4", "shots.json"}) {
    with(field, "", "empty");
    with(field, std::string(5 << 20, '\xFF'), "of 5 MiB that is not UTF-8");
  }
  with("json", R"({"fps":NaN,"frames_at":[NaN],"duration":-1e999,"film":{}})",
       "with NaN and members of other types");
  with("json", std::string(100000, '['), "nested 100,000 deep");
  with("txt", std::string("\0\x1b[2J\n%s%n", 10), "with control characters");
  TrialSample long_key = usual;
  long_key.what = "a key of 200 bytes";
  long_key.key = std::string(200, 'k');
  out.push_back(std::move(long_key));
  const char* words[] = {"empty",   "zero-dimensional",  "of shape [3]",
                         "of bf16", "of NaN in float32", "strided"};
  for (size_t i = 0; i < usual.tensors.size(); ++i) {
    const auto changed = trial::hostile_tensors(usual.tensors[i]);
    for (size_t k = 0; k < changed.size(); ++k) {
      TrialSample s = usual;
      s.what = "tensor '" + usual.tensors[i].name + "' " + words[k];
      s.tensors[i] = changed[k];
      out.push_back(std::move(s));
    }
  }
  return out;
}

kinora_sample* sample_of(const TrialSample& from) {
  const auto& api = trial::api();
  kinora_sample* out = nullptr;
  check(api.create(str(from.key), &out));
  for (const auto& [name, bytes] : from.fields)
    check(
        api.set(out, name.c_str(), {bytes.empty() ? nullptr : bytes.data(), bytes.size()}, nullptr, nullptr));
  for (const auto& t : from.tensors) {
    kinora_dl_managed* managed = trial::managed_of(t);
    if (api.set_tensor(out, t.name.c_str(), managed) != KINORA_OK) managed->deleter(managed);
  }
  return out;
}

}  // namespace kinora
