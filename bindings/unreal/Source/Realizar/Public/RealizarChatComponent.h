#pragma once

#include "Components/ActorComponent.h"
#include "CoreMinimal.h"

#include <realizar.hpp>

#include "RealizarChatComponent.generated.h"

class UTextureRenderTarget2D;

DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(FRealizarText, const FString&, Piece);
DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(FRealizarEnded, const FString&, Error);

/** Answers a conversation within the time that a frame can spare: an answer is worked on in each tick for a budget, and
 *  comes as an event for each piece of text. */
UCLASS(ClassGroup = (AI), meta = (BlueprintSpawnableComponent))
class REALIZAR_API URealizarChatComponent : public UActorComponent
{
    GENERATED_BODY()

public:
    URealizarChatComponent();

    /** A .gguf file, or a folder with config.json. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar")
    FString ModelPath;

    /** Threads that compute, the game's own included; 0: one per processor, or one per fast core if cores differ. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "0"))
    int32 Threads = 1;

    /** Microseconds of a frame. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "1"))
    int32 Budget = 2000;

    /** Tokens of an answer at most; 0: as many as there is room for. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "0"))
    int32 MaxTokens = 256;

    /** Tokens of reasoning ahead of an answer at most; 0: none; negative: no bound. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "-1"))
    int32 ReasoningTokens = -1;

    /** 0: always the most likely token; negative: all sampling as the model's makers advise. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "-1"))
    float Temperature = -1.0f;

    /** What a conversation begins with; empty: nothing. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (MultiLine = "true"))
    FString SystemMessage;

    /** Told each piece of an answer, whole characters. */
    UPROPERTY(BlueprintAssignable, Category = "Realizar")
    FRealizarText OnText;

    /** Told each piece of what the model thinks ahead of an answer. */
    UPROPERTY(BlueprintAssignable, Category = "Realizar")
    FRealizarText OnReasoning;

    /** Told the end of an answer: empty, or why it broke off. */
    UPROPERTY(BlueprintAssignable, Category = "Realizar")
    FRealizarEnded OnEnded;

    /** Loads the model, as long as reading its file takes, and begins a new conversation. BeginPlay does so where there
     *  is a path. False, and a line in the log, where it fails. Another thread may call it, while nothing else of this
     *  component is called and nothing is being answered. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool Load();

    /** Begins a new conversation with the model that is loaded. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool Begin();

    /** Has answers obey a JSON schema from the next question on, until another model is loaded; empty: none. The
     *  first one of a model takes some tenths of a second. False, and a line in the log, where it is none. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool SetSchema(const FString& Json);

    /** Adds a question to the conversation; the answer comes in the ticks that follow. One that still comes is stopped.
     *  Where there is no room the model forgets the oldest questions and answers. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool Ask(const FString& Question);

    /** Loads the encoder of pictures of the model: its file ("mmproj-...gguf"), or the folder of both. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool LoadEncoder(const FString& Path);

    /** Asks about what is in a render target, such as that of a scene capture. Its pixels are read back, for which this
     *  waits; they are encoded within the budget of the ticks that follow, ahead of the answer. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool AskAboutTarget(const FString& Question, UTextureRenderTarget2D* Target);

    /** The same about pixels, row by row from the top. */
    bool AskAbout(const FString& Question, const TArray<FColor>& Pixels, int32 Width, int32 Height);

    /** Ends the answer. What there is of it stays in the conversation; where there is nothing the question goes too. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    void Stop();

    UFUNCTION(BlueprintPure, Category = "Realizar")
    bool IsAnswering() const { return bAnswering; }

    virtual void BeginPlay() override;
    virtual void EndPlay(const EEndPlayReason::Type Reason) override;
    virtual void TickComponent(float DeltaTime, ELevelTick TickType, FActorComponentTickFunction* Function) override;

private:
    /** Ends the answer for a call that changes the conversation. False, and a line in the log, where it cannot go
     *  on. */
    bool Interrupt(const char* Why);
    void End(const char* Why);
    /** False, and a line in the log, if a property of answers is out of range. */
    bool AreInRange() const;
    /** Begins the answer to the last message. */
    bool Answer();

    std::optional<realizar::Model> Model;
    std::optional<realizar::Conversation> Conversation;
    std::optional<realizar::Encoder> Encoder;
    /** The picture of a question that is being encoded, ahead of the answer, and that question as a message in JSON. */
    std::optional<realizar::Media> Picture;
    std::string Message;
    std::optional<realizar::Grammar> Schema;
    /** Number of the answer, by which a tick notices that the receiver of an event has ended it. */
    uint64 Turn = 0;
    /** Messages before the question. */
    uint32 MessagesBefore = 0;
    bool bAnswering = false;
};
