// A host for unit tests of plugins: samples, local files and a run, without Kinora itself. In tests only.
//
//   kinora::testing::start();                                   // once, before any code of the plugin runs
//   kinora::testing::Collector out;
//   MyStage({.threshold = 0.5}).process(sample, out.emit(), kinora::testing::Run("/tmp/x"));
//   EXPECT_EQ(out.emitted.size(), 1u);
#pragma once
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kinora/io.hpp"
#include "kinora/run.hpp"
#include "kinora/sample.hpp"
#include "kinora/stage.hpp"

KINORA_SDK_BEGIN

namespace kinora::testing {

inline thread_local std::string last_error;

// Byte fields in the order they were set, each shared between clones; tensors likewise.
struct TestSample {
  struct Field {
    std::string name;
    std::shared_ptr<const void> keep;
    kinora_bytes bytes;
  };
  std::string key;
  std::vector<Field> fields;
  std::map<std::string, std::shared_ptr<kinora_dl_managed>> tensors;
  std::atomic<int> count{1};
  static inline std::atomic<int64_t> alive{0};  // for tests of leaks
  TestSample() { ++alive; }
  TestSample(const TestSample& o) : key(o.key), fields(o.fields), tensors(o.tensors) { ++alive; }
  ~TestSample() { --alive; }

  static TestSample* of(kinora_sample* s) { return reinterpret_cast<TestSample*>(s); }
  static const TestSample* of(const kinora_sample* s) { return reinterpret_cast<const TestSample*>(s); }
  Field* find(std::string_view name) {
    for (auto& f : fields)
      if (f.name == name) return &f;
    return nullptr;
  }
};

inline int32_t error(int32_t code, const std::string& message) {
  last_error = message;
  return code;
}

inline uint64_t tensor_bytes(const kinora_dl_tensor& t) {
  uint64_t n = t.bits / 8;
  for (int32_t i = 0; i < t.ndim; ++i) n *= static_cast<uint64_t>(t.shape[i]);
  return n;
}

inline int32_t set_field(kinora_sample* s, const char* name, kinora_bytes value, void (*release)(void*),
                         void* user) {
  std::shared_ptr<const void> keep;
  if (release) {
    keep = std::shared_ptr<const void>(value.data, [release, user](const void*) { release(user); });
  } else {
    auto copy =
        std::make_shared<std::string>(static_cast<const char*>(value.data ? value.data : ""), value.size);
    value.data = copy->data();
    keep = std::move(copy);
  }
  auto* to = TestSample::of(s);
  if (auto* f = to->find(name)) {
    f->keep = std::move(keep);
    f->bytes = value;
  } else {
    to->fields.push_back({name, std::move(keep), value});
  }
  return KINORA_OK;
}

inline const kinora_samples_api& samples() {
  static const kinora_samples_api table{
      sizeof(kinora_samples_api),
      0,
      [](kinora_str key, kinora_sample** out) {
        auto* s = new TestSample;
        s->key = view(key);
        *out = reinterpret_cast<kinora_sample*>(s);
        return KINORA_OK;
      },
      [](const kinora_sample* from, kinora_str key, kinora_sample** out) {
        auto* s = new TestSample(*TestSample::of(from));
        s->key = view(key);
        *out = reinterpret_cast<kinora_sample*>(s);
        return KINORA_OK;
      },
      [](kinora_sample* s) { ++TestSample::of(s)->count; },
      [](kinora_sample* s) {
        if (--TestSample::of(s)->count == 0) delete TestSample::of(s);
      },
      [](const kinora_sample* s) { return str(TestSample::of(s)->key); },
      [](const kinora_sample* s, uint64_t i, kinora_str* name, kinora_bytes* value) {
        const auto& fields = TestSample::of(s)->fields;
        if (i >= fields.size()) return KINORA_ERROR_NOT_FOUND;
        *name = str(fields[i].name);
        *value = fields[i].bytes;
        return KINORA_OK;
      },
      [](const kinora_sample* s, const char* name, kinora_bytes* out) {
        const auto* f = const_cast<TestSample*>(TestSample::of(s))->find(name);
        if (!f) return KINORA_ERROR_NOT_FOUND;
        *out = f->bytes;
        return KINORA_OK;
      },
      set_field,
      [](kinora_sample* s, const char* name) {
        std::erase_if(TestSample::of(s)->fields, [&](const auto& f) { return f.name == name; });
        TestSample::of(s)->tensors.erase(name);
      },
      [](const kinora_sample* s, const char* name, const kinora_dl_tensor** out) {
        const auto& tensors = TestSample::of(s)->tensors;
        const auto at = tensors.find(name);
        if (at == tensors.end()) return KINORA_ERROR_NOT_FOUND;
        *out = &at->second->tensor;
        return KINORA_OK;
      },
      [](kinora_sample* s, const char* name, kinora_dl_managed* t) {
        TestSample::of(s)->tensors[name] = std::shared_ptr<kinora_dl_managed>(t, [](kinora_dl_managed* m) {
          if (m->deleter) m->deleter(m);
        });
        return KINORA_OK;
      },
      [](const kinora_sample* s) {
        uint64_t n = sizeof(TestSample) + TestSample::of(s)->key.size();
        for (const auto& f : TestSample::of(s)->fields) n += f.bytes.size;
        for (const auto& [name, t] : TestSample::of(s)->tensors) n += tensor_bytes(t->tensor);
        return n;
      }};
  return table;
}

// Local files: URIs are plain paths. A writer fills "PATH.part" and renames it.
struct TestWriter {
  std::string path;
  std::FILE* file;
};

inline const kinora_io_api& files() {
  static const auto file = [](auto* p) { return reinterpret_cast<std::FILE*>(p); };
  static const auto writer = [](kinora_writer* w) { return reinterpret_cast<TestWriter*>(w); };
  static const kinora_io_api table{
      sizeof(kinora_io_api),
      0,
      [](kinora_str uri, kinora_reader** out) {
        std::FILE* f = std::fopen(std::string(view(uri)).c_str(), "rb");
        if (!f) return error(KINORA_ERROR_NOT_FOUND, std::string(view(uri)) + ": no such file");
        *out = reinterpret_cast<kinora_reader*>(f);
        return KINORA_OK;
      },
      [](kinora_reader* r) {
        std::fseek(file(r), 0, SEEK_END);
        return static_cast<int64_t>(std::ftell(file(r)));
      },
      [](kinora_reader* r, uint64_t offset, void* to, uint64_t size, uint64_t* got) {
        std::fseek(file(r), static_cast<long>(offset), SEEK_SET);
        *got = std::fread(to, 1, size, file(r));
        return KINORA_OK;
      },
      [](kinora_reader* r) { std::fclose(file(r)); },
      [](kinora_str uri, kinora_writer** out) {
        const std::string path(view(uri));
        std::error_code none;
        std::filesystem::create_directories(std::filesystem::path(path).parent_path(), none);
        std::FILE* f = std::fopen((path + ".part").c_str(), "wb");
        if (!f) return error(KINORA_ERROR_IO, path + ": cannot be written");
        *out = reinterpret_cast<kinora_writer*>(new TestWriter{path, f});
        return KINORA_OK;
      },
      [](kinora_writer* w, const void* data, uint64_t size) {
        return std::fwrite(data, 1, size, writer(w)->file) == size ? KINORA_OK
                                                                   : error(KINORA_ERROR_IO, "write failed");
      },
      [](kinora_writer* w) {
        const std::unique_ptr<TestWriter> ends(writer(w));
        std::fclose(ends->file);
        std::filesystem::rename(ends->path + ".part", ends->path);
        return KINORA_OK;
      },
      [](kinora_writer* w) {
        const std::unique_ptr<TestWriter> ends(writer(w));
        std::fclose(ends->file);
        std::filesystem::remove(ends->path + ".part");
      }};
  return table;
}

inline const kinora_host& host() {
  static const kinora_host table{
      sizeof(kinora_host),
      KINORA_ABI_MAJOR,
      KINORA_ABI_MINOR,
      0,
      [](const kinora_host*, int32_t, const char* message) { last_error = message; },
      [](const kinora_host*) { return str(last_error); },
      [](const kinora_host*, const char* id, uint32_t) -> const void* {
        if (!std::strcmp(id, KINORA_INTERFACE_SAMPLES)) return &samples();
        if (!std::strcmp(id, KINORA_INTERFACE_IO)) return &files();
        return nullptr;
      },
      [](const kinora_host*, int32_t, const char*) {}};
  return table;
}

inline void start() { g_host = &host(); }

// A run that is not cancelled unless the test does so.
class Run {
 public:
  explicit Run(std::string out = "", int32_t threads = 1) : out_(std::move(out)) {
    run_.struct_size = sizeof run_;
    run_.device_type = KINORA_DL_CPU;
    run_.n_threads = threads;
    run_.out = str(out_);
    run_.self = this;
    run_.progress = [](void* self, int64_t, int64_t, kinora_tensor) { return cancelled_of(self); };
    run_.cancelled = cancelled_of;
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  operator kinora::Run() const { return kinora::Run(&run_); }  // NOLINT(google-explicit-constructor)
  const kinora_run* get() const { return &run_; }
  std::atomic<bool> cancel{false};

 private:
  static int32_t cancelled_of(void* self) {
    return static_cast<Run*>(self)->cancel ? KINORA_ERROR_CANCELLED : KINORA_OK;
  }
  std::string out_;
  kinora_run run_{};
};

// Records what a stage does with its samples.
class Collector {
 public:
  struct Dropped {
    std::string key, rule;
    double score;
  };
  std::vector<Sample> emitted;
  struct Failed {
    std::string key, reason;
  };
  std::vector<Dropped> dropped;
  std::vector<Failed> failed;
  std::vector<std::string> stored;
  int held = 0;

  Emit emit() { return Emit(&table_); }

 private:
  static Collector& of(void* self) { return *static_cast<Collector*>(self); }
  kinora_emit table_{sizeof(kinora_emit),
                     0,
                     this,
                     [](void* self, kinora_sample* s) {
                       of(self).emitted.push_back(Sample::adopt(s));
                       return KINORA_OK;
                     },
                     [](void* self, kinora_sample* s, const char* rule, double score) {
                       of(self).dropped.push_back({std::string(Sample::adopt(s).key()), rule, score});
                       return KINORA_OK;
                     },
                     [](void* self) {
                       ++of(self).held;
                       return KINORA_OK;
                     },
                     [](void* self, kinora_str key) {
                       of(self).stored.emplace_back(view(key));
                       return KINORA_OK;
                     },
                     [](void* self, kinora_sample* s, const char* reason) {
                       of(self).failed.push_back({std::string(Sample::adopt(s).key()), reason});
                       return KINORA_OK;
                     },
                     nullptr};
};

}  // namespace kinora::testing

KINORA_SDK_END
