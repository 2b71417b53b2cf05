#pragma once
class FDefaultModuleImpl {};
#define IMPLEMENT_MODULE(implementation, name) extern implementation name##Module; implementation name##Module;
class FDefaultGameModuleImpl {};
#define IMPLEMENT_PRIMARY_GAME_MODULE(implementation, module, game) IMPLEMENT_MODULE(implementation, module)
