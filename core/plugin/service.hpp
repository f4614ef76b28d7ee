// Services: what one library of Kinora does for others that do not link it, through a class whose header both include.
// A service is a component of tier "host", found by the registry as a job is; its class has the id:
//
//   class TextVectors { public: static constexpr const char* kId = "service/text-vectors"; virtual ... = 0; };
//   service<TextVectors>(registry).embed(...);
//
// The library that does it derives from the class, says in `kHelp` what it does, and has it among its components:
//
//   KINORA_SERVICE(CaptionEmbedder)
//   KINORA_PLUGIN(EmbedText, CaptionEmbedder)
#pragma once
#include <string>

#include "core/plugin/kinds.hpp"
#include "core/plugin/opening.hpp"
#include "kinora/options.hpp"

namespace kinora::core {

// Opens its library. Throws kinora::Error. [any-thread]
template <class Service>
inline const Service& service(Registry& registry) {
  const Component found = open_component(registry, "service", Service::kId);
  return *static_cast<const Service*>(found.table<kinora_service>().object());
}

// Its library links libtorch, which is opened before it.
template <class Service>
kinora_component service_component() {
  static const Service object;
  static const kinora_service table{sizeof(kinora_service), 0, []() -> const void* {
                                      return static_cast<const typename Service::Interface*>(&object);
                                    }};
  return {sizeof(kinora_component),
          0,
          Service::kId,
          kServiceInterface,
          &table,
          [](const kinora_sink* out) {
            return guard([&] {
              const std::string text = std::string("[[component]]\nid = \"") + Service::kId +
                                       "\"\nhelp = " + detail::toml_string(Service::kHelp) +
                                       "\ntensors = true\n";
              out->write(out->self, text.data(), text.size());
            });
          },
          nullptr};
}

}  // namespace kinora::core

#define KINORA_SERVICE(Class)                                                         \
  __attribute__((visibility("hidden"))) kinora_component kinora_component_##Class() { \
    return kinora::core::service_component<kinora::core::Class>();                    \
  }
