// The engine's own tool writes this file.
#define GENERATED_BODY() \
public:                  \
    using Super = UActorComponent;
