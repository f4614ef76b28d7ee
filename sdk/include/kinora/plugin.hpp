// A plugin: classes, each with KINORA_COMPONENT in its file, and one KINORA_PLUGIN that lists them.
//
//   class EdmHeun final : public kinora::Sampler {
//    public:
//     struct Options { int64_t steps = 35; };
//     static void describe(kinora::Describe<Options>& d) {
//       d.name("edm-heun").help("...");
//       d.option("steps", &Options::steps);
//     }
//     explicit EdmHeun(const Options& o) : options_(o) {}
//     ...
//   };
//   KINORA_COMPONENT(EdmHeun)
//   KINORA_PLUGIN(EdmHeun)
//
// Name and version of the plugin come from the build (kinora_add_plugin).
#pragma once
#include "kinora/abi/plugin.h"
#include "kinora/options.hpp"

KINORA_SDK_BEGIN

#ifndef KINORA_PLUGIN_NAME
#error "define KINORA_PLUGIN_NAME and KINORA_PLUGIN_VERSION, or build with kinora_add_plugin() from sdk/cmake"
#endif

namespace kinora::detail {

template <class T>
int32_t describe_component(const kinora_sink* out) {
  return guard([&] {
    const std::string text = described<T>().toml(T::kind, T::interface_id);
    out->write(out->self, text.data(), text.size());
  });
}

template <class T>
kinora_component component() {
  static const std::string id = described<T>().id(T::kind);
  return {sizeof(kinora_component), 0,      id.c_str(), T::interface_id, T::template api<T>(),
          describe_component<T>,    nullptr};
}

using ComponentFn = kinora_component (*)();

// Entry of the library: remembers the host, builds the table once.
template <size_t N>
const kinora_plugin* plugin_entry(const kinora_host* host, const ComponentFn (&makers)[N]) {
  g_host = host;
  static kinora_component components[N];
  static const kinora_plugin plugin{
      sizeof(kinora_plugin), KINORA_ABI_MAJOR, KINORA_ABI_TARGET_MINOR, N, KINORA_PLUGIN_NAME,
      KINORA_PLUGIN_VERSION, components};
  const int32_t status = guard([&] {
    for (size_t i = 0; i < N; ++i) components[i] = makers[i]();
  });
  return status == KINORA_OK ? &plugin : nullptr;
}

}  // namespace kinora::detail

#define KINORA_COMPONENT(Class)                                                       \
  __attribute__((visibility("hidden"))) kinora_component kinora_component_##Class() { \
    return kinora::detail::component<Class>();                                        \
  }

// A list of up to 20 components, written out by the preprocessor.
#define KINORA_FOR_EACH(M, ...) __VA_OPT__(KINORA_EXPAND(KINORA_EACH(M, __VA_ARGS__)))
#define KINORA_EACH(M, a, ...) M(a) __VA_OPT__(KINORA_AGAIN KINORA_PARENS(M, __VA_ARGS__))
#define KINORA_AGAIN() KINORA_EACH
#define KINORA_PARENS ()
#define KINORA_EXPAND(...) KINORA_EXPAND1(KINORA_EXPAND1(KINORA_EXPAND1(KINORA_EXPAND1(__VA_ARGS__))))
#define KINORA_EXPAND1(...) \
  KINORA_EXPAND2(KINORA_EXPAND2(KINORA_EXPAND2(KINORA_EXPAND2(KINORA_EXPAND2(__VA_ARGS__)))))
#define KINORA_EXPAND2(...) __VA_ARGS__
#define KINORA_DECLARE(Class) \
  __attribute__((visibility("hidden"))) kinora_component kinora_component_##Class();
#define KINORA_MAKER(Class) kinora_component_##Class,
#define KINORA_PLUGIN(...)                                                                                \
  KINORA_FOR_EACH(KINORA_DECLARE, __VA_ARGS__)                                                            \
  extern "C" KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {            \
    static constexpr kinora::detail::ComponentFn makers[] = {KINORA_FOR_EACH(KINORA_MAKER, __VA_ARGS__)}; \
    return kinora::detail::plugin_entry(host, makers);                                                    \
  }

KINORA_SDK_END
