// A video tokenizer in C++, see abi/tokenizer.h.
#pragma once
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kinora/abi/tokenizer.h"
#include "kinora/context.hpp"
#include "kinora/options.hpp"
#include "kinora/renames.hpp"
#include "kinora/run.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// A stream of consecutive pieces; keeps only the state that later pieces depend on.
template <class T>
class TokenizerStream {
 public:
  virtual ~TokenizerStream() = default;
  virtual T push(const Run&, const T& piece) = 0;
};

template <class T>
struct Encoded {
  T latent, posterior;
};

// A subclass M has: struct Options; static void describe(Describe<Options>&); M(const Options&, const
// Context<T>&).
template <class T>
class Tokenizer {
 public:
  static constexpr const char* kind = "tokenizer";
  static constexpr const char* interface_id = KINORA_INTERFACE_TOKENIZER;
  virtual ~Tokenizer() = default;
  virtual kinora_tokenizer_info info() const = 0;
  virtual Encoded<T> encode(const Run&, const Context<T>& ctx, const T& video) = 0;
  virtual T decode(const Run&, const Context<T>& ctx, const T& latent) = 0;
  // Null: this tokenizer cannot stream.
  virtual std::unique_ptr<TokenizerStream<T>> open(const Run&, const Context<T>&, bool /*decoding*/) {
    return nullptr;
  }

  // Initial values for training in closed form, by the parameters' names. Without an override the slot is
  // null, so that the host knows it before a run.
  virtual std::vector<std::pair<std::string, T>> fit(const Run&, const Context<T>&, const T& /*video*/) {
    throw Error(KINORA_ERROR_UNSUPPORTED, "this tokenizer begins at random only");
  }

  template <class M>
  static const void* api() {
    static const kinora_tokenizer table{
        sizeof(kinora_tokenizer),
        0,
        [](const kinora_host*, const kinora_options* o, const kinora_context* c) -> void* {
          Tokenizer* made = nullptr;
          guard([&] { made = new M(described<M>().read(o), Context<T>(c)); });
          return made;
        },
        [](void* self) { delete of(self); },
        [](void* self, kinora_tokenizer_info* out) {
          return guard([&] {
            const kinora_tokenizer_info all = of(self)->info();
            KINORA_FILL(out, &all);
          });
        },
        [](void* self, const kinora_run* r, const kinora_context* c, kinora_tensor video,
           kinora_tensor* latent, kinora_tensor* posterior) {
          return guard([&] {
            auto e = of(self)->encode(Run(r), Context<T>(c), borrow<T>(video));
            *latent = give(std::move(e.latent));
            *posterior = give(std::move(e.posterior));
          });
        },
        [](void* self, const kinora_run* r, const kinora_context* c, kinora_tensor latent,
           kinora_tensor* video) {
          return guard([&] { *video = give(of(self)->decode(Run(r), Context<T>(c), borrow<T>(latent))); });
        },
        [](void* self, const kinora_run* r, const kinora_context* c, int32_t decoding, void** stream) {
          return guard([&] {
            auto s = of(self)->open(Run(r), Context<T>(c), decoding != 0);
            if (!s)
              throw Error(KINORA_ERROR_UNSUPPORTED,
                          "this tokenizer cannot stream; encode and decode whole clips");
            *stream = s.release();
          });
        },
        [](void* stream, const kinora_run* r, kinora_tensor piece, kinora_tensor* out) {
          return guard(
              [&] { *out = give(static_cast<TokenizerStream<T>*>(stream)->push(Run(r), borrow<T>(piece))); });
        },
        [](void* stream) { delete static_cast<TokenizerStream<T>*>(stream); },
        detail::layout_of<M>,
        fits<M> ? fit_all : nullptr};
    return &table;
  }

 private:
  template <class M>
  static constexpr bool fits = !std::is_same_v<decltype(&M::fit), decltype(&Tokenizer::fit)>;
  static int32_t fit_all(void* self, const kinora_run* r, const kinora_context* c, kinora_tensor video,
                         void* to, void (*value)(void*, const char*, kinora_tensor)) {
    return guard([&] {
      for (auto& [name, v] : of(self)->fit(Run(r), Context<T>(c), borrow<T>(video)))
        value(to, name.c_str(), give(std::move(v)));
    });
  }
  static Tokenizer* of(void* self) { return static_cast<Tokenizer*>(self); }
};

}  // namespace kinora

KINORA_SDK_END
