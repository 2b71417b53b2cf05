#pragma once

#include "Async/Async.h"
#include "CoreMinimal.h"
#include "Dom/JsonObject.h"
#include "GameFramework/Actor.h"
#include "RealizarChatComponent.h"

#include "AdventureActor.generated.h"

/** The rules of the adventure, and the talk with its people through a URealizarChatComponent. adventure.json, below
 *  Content, has all texts. */
UCLASS()
class ADVENTURE_API AAdventureActor : public AActor
{
    GENERATED_BODY()

public:
    AAdventureActor();

    /** Its ModelPath stays empty: the adventure loads the model beside the game. */
    UPROPERTY(VisibleAnywhere, Category = "Adventure")
    TObjectPtr<URealizarChatComponent> Chat;

    /** A .gguf file. */
    UPROPERTY(EditAnywhere, Category = "Adventure")
    FString ModelPath;

    /** Says the lines of the script in the player's place. */
    UPROPERTY(EditAnywhere, Category = "Adventure")
    bool bPlays = false;

    /** Has the text that the player is to be shown, piece by piece. */
    UPROPERTY(BlueprintAssignable, Category = "Adventure")
    FRealizarText OnShown;

    /** Lines of a transcript: "> " what was said, "? " what the person can do, "< " the whole reply, "! " why there is
     *  none, "= " the state. */
    UPROPERTY(BlueprintAssignable, Category = "Adventure")
    FRealizarText OnNoted;

    /** Says something. A person who is still speaking is interrupted. */
    UFUNCTION(BlueprintCallable, Category = "Adventure")
    void Say(const FString& Text);

    /** The script has come to its end. */
    UFUNCTION(BlueprintPure, Category = "Adventure")
    bool IsOver() const { return bOver; }

    /** The 50th and 99th percentile of the frames in which a person spoke, and the longest. */
    UFUNCTION(BlueprintCallable, Category = "Adventure")
    FString FrameTimes();

    virtual void BeginPlay() override;
    virtual void EndPlay(const EEndPlayReason::Type Reason) override;
    virtual void Tick(float DeltaSeconds) override;

private:
    using FObject = TSharedPtr<FJsonObject>;

    void Enter(const FString& Name);
    TArray<FString> Actions() const;
    FString Said() const;
    void Act(const FString& Name);
    void GoOn();

    UFUNCTION()
    void Hear(const FString& Piece);
    UFUNCTION()
    void End(const FString& Error);

    FObject Story, Room;
    TArray<FString> Items;
    FString Reply;
    TFuture<bool> Loading;
    TArray<float> Frames;
    int32 Line = 0;
    bool bLoaded = false, bSpoke = false, bOver = false;
};
