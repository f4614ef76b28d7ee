#include "kinora/plugin.hpp"

#include "local_engine.hpp"

using kinora::local::LocalEngine;
KINORA_COMPONENT(LocalEngine)
KINORA_PLUGIN(LocalEngine)
